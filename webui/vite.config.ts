import { defineConfig } from "vite";

// The daemon serves the page with a policy that forbids inline scripts and styles, so nothing is inlined here.
export default defineConfig({
  base: "/",
  build: {
    outDir: "../src/grassq/web/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { host: "127.0.0.1" },
});
