from grassq.compat.gpupeasy.entry import start_server

start_server(port=8888, devices=["0", "1", "2", "3"])
