# shellcheck shell=sh
# Start the verb that is asked for. Last, so that the whole script is read before anything runs.
far_main() {
    far_asked_verb=$1
    shift
    case $far_asked_verb in
    serve | once | events | supervise | await | run | receive | give) "far_$far_asked_verb" "$@" ;;
    *)
        printf 'unknown verb %s\n' "$far_asked_verb" >&2
        exit 2
        ;;
    esac
}
far_main "$@"
