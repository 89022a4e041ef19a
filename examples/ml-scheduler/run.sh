# Start this in the folder above: bash example/run.sh
execute_batch example/batch_script.sh --machines example/machine.yaml example/machine2.yaml
