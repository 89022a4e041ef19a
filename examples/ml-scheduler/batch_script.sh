echo "one job"
echo "jobs will tell you if they fail" && exit 1
echo "another job" && echo "a combined job (bash syntax applies)"
bash local.sh && echo "this fails: the file is in the folder example, so no local.sh is here"
bash example/local.sh && echo "local files are there, because --copy-forward sends them"
