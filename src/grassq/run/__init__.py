"""Running attempts: launcher, shim, run dir, process trees and logs; stdlib only."""
