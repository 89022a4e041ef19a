# Completion of grass for fish. To use it: grass completion fish > ~/.config/fish/completions/grass.fish

function __grass_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l typed (string unescape -- $current; or echo -- $current)
    # Of a path only the name is called: TAB must not run a program of the current folder. Nothing but the answer may
    # reach the prompt.
    set -l program (string replace -r '.*/' '' -- $before[1])
    set -l answer (command $program __complete $before[2..-1] "$typed" 2>/dev/null </dev/null)
    test (count $answer) -gt 0; or return
    set -l head (string split -- ' ' $answer[1])
    set -l number $head[2]
    set -l kept (string sub -l $number -- $current)
    switch $head[1]
        case files folders
            set -l value (string sub -s (math $number + 1) -- $current)
            if test $head[1] = folders
                string join \n -- $kept(__fish_complete_directories $value '')
            else
                string join \n -- $kept(__fish_complete_path $value '')
            end
        case command
            # From this word on, the words are a command line of their own.
            set -l first (math $number + 1)
            set -l line (string escape -- $before[$first..-1])
            test (count $before) -ge $first; or set line
            string join \n -- $answer[2..-1]
            complete --do-complete=(string join -- ' ' $line $current)
        case '*'
            test (count $answer) -gt 1; or return
            string join \n -- $kept$answer[2..-1]
    end
end

for program in grass grassq
    complete -c $program -e
    complete -c $program -f -k -a '(__grass_complete)'
end
