#!/bin/bash
# What every program owes to the shell around it, before it does any work.
. "$(dirname "$0")/lib.sh"

test_help_names_usage_options_and_examples() {
  for program in "${PROGRAMS[@]}"; do
    run "$program" --help
    expect_status 0
    expect_quiet
    expect_stdout '^Usage: '
    expect_stdout '--help'
    expect_stdout '^Examples:'
    expect_stdout "^  ($program|.*\| $program) "
  done
}

test_sub_commands_have_help() {
  for command in model data host link; do
    run tl-profile "$command" --help
    expect_status 0
    expect_quiet
    expect_stdout '^Usage: '
  done
}

test_version_is_the_projects() {
  local version
  version=$(sed -n 's/^project(tl-tools VERSION \([0-9.]*\).*/\1/p' "$TL_SOURCE/CMakeLists.txt")
  for program in "${PROGRAMS[@]}"; do
    run "$program" --version
    expect_status 0
    expect_quiet
    [[ $(<out) == "$program (tl-tools) $version" ]] || fail "$program --version says: $(<out)"
  done
}

test_wrong_usage_is_one_line_and_status_2() {
  for program in "${PROGRAMS[@]}"; do
    for arguments in --no-such-option '-o' ''; do
      # shellcheck disable=SC2086 # an empty list of arguments is one of the cases
      run "$program" $arguments </dev/null
      expect_status 2
      expect_error "$program --help"
      [[ ! -s out ]] || fail "$program $arguments writes to stdout"
    done
  done
}

test_full_disk_is_a_failure() {
  for program in "${PROGRAMS[@]}"; do
    for option in --help --version; do
      status=0
      "$program" "$option" >/dev/full 2>err || status=$?
      COMMAND="$program $option >/dev/full"
      expect_status 1
      expect_error 'No space left on device'
    done
  done
}

test_closed_stdout_is_a_failure() {
  for program in "${PROGRAMS[@]}"; do
    status=0
    "$program" --help >&- 2>err || status=$?
    COMMAND="$program --help >&-"
    expect_status 1
    expect_error 'stdout'
  done
}

test_reader_that_leaves_ends_it_quietly() {
  for program in "${PROGRAMS[@]}"; do
    for disposition in - "''"; do # some job systems start programs with SIGPIPE ignored
      bash -c "trap $disposition PIPE; { sleep 0.2; $program --help; echo \$? >status; } 2>err | true"
      COMMAND="$program --help | true"
      status=$(<status)
      expect_status 141
      expect_quiet
    done
  done
}

main "$@"
