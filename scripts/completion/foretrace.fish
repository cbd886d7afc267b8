# fish completion of foretrace: commands and options as --help lists them, names of platforms and
# calibrations, files elsewhere.
function __foretrace_command
    set -l found
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; and break
        if test (count $found) -eq 0; or begin; test (count $found) -eq 1; and test "$found" = calibrate; end
            set found $found $word
        end
    end
    printf '%s\n' $found
end

function __foretrace_commands
    foretrace (__foretrace_command) --help 2>/dev/null | sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\)  *\(.*\)/\1\t\2/p'
end

function __foretrace_options
    foretrace (__foretrace_command) --help 2>/dev/null | grep -oE -- '(^|[ ,])--?[a-z][a-z-]*' | tr -d ' ,' | sort -u
end

function __foretrace_names --argument-names folder
    set -l here (dirname (command -v foretrace))
    for root in (string split ':' -- "$FORETRACE_DATA") . $here/../share/foretrace
        for file in $root/$folder/*
            string replace -r '\.yaml$' '' (basename $file)
        end
    end
end

complete -c foretrace -n 'test -z (__foretrace_command)' -f -a '(__foretrace_commands)'
complete -c foretrace -n 'test (__foretrace_command) = calibrate' -f -a '(__foretrace_commands)'
complete -c foretrace -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__foretrace_options)'
complete -c foretrace -n 'test (__foretrace_command)[1] = list' -f -a 'platforms calibrations gpus workloads'
complete -c foretrace -l on -x -a '(__foretrace_names topologies)'
complete -c foretrace -l platform -x -a '(__foretrace_names topologies)'
complete -c foretrace -l calibration -x -a '(__foretrace_names calibration)'
