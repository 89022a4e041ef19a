from grassq.compat.gpupeasy.entry import start_gui

start_gui(port=4004)
