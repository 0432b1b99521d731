#!/bin/bash
# Pages and completions say what the programs say.
. "$(dirname "$0")/lib.sh"

# long_options COMMAND...: those in its --help, one a line.
long_options() { "$@" --help | grep -oE '^  (-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+'; }

page() { mandoc -T ascii "$TL_SOURCE/man/$1.1" | col -b; }

setup() {
  for program in "${PROGRAMS[@]}"; do
    page "$program" >"$program.page"
    long_options "$program" >options
    if [[ $program == tl-profile ]]; then
      for command in model data host link; do long_options tl-profile "$command"; done >>options
    elif [[ $program == tl-select ]]; then
      for command in history gc; do long_options tl-select "$command"; done >>options
    fi
    sort -u options >"$program.options"
  done
  sort -u ./*.options >all
}

test_pages_describe_every_option_and_no_other() {
  for program in "${PROGRAMS[@]}"; do
    sed '/^EXAMPLES/,$d' "$SHARED/$program.page" | grep -oE -- '(^|[^-a-z])--[a-z-]+' | grep -oE -- '--[a-z-]+' |
      sort -u >described
    comm -23 "$SHARED/$program.options" described >missing
    [[ ! -s missing ]] || fail "$program.1 does not describe: $(paste -sd' ' missing)"
    comm -13 "$SHARED/all" described >surplus # a page may mention options of other programs
    [[ ! -s surplus ]] || fail "$program.1 describes what does not exist: $(paste -sd' ' surplus)"
  done
}

test_pages_have_the_usual_sections() {
  for program in "${PROGRAMS[@]}"; do
    for section in SYNOPSIS DESCRIPTION 'EXIT STATUS' EXAMPLES 'SEE ALSO'; do
      grep -q "^$section" "$SHARED/$program.page" || fail "$program.1 has no section $section"
    done
  done
}

test_completions_are_up_to_date() {
  must "$TL_SOURCE/scripts/completions/generate" "$TL_BIN" .
  for file in tl-tools.bash _tl-tools; do
    cmp -s "$file" "$TL_SOURCE/scripts/completions/$file" ||
      fail "scripts/completions/$file is out of date; run scripts/completions/generate build/bin"
  done
}

# complete WORD...: what bash offers for the last word.
complete_words() {
  bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tl_tools "$1"; printf "%s\n" "${COMPREPLY[@]}"' \
    "$TL_SOURCE/scripts/completions/tl-tools.bash" "$@" >out
}

test_bash_completes_options_values_and_commands() {
  complete_words tl-split --exp
  expect_stdout '^--explain$'
  complete_words tl-split --storage a.json --algorithm h
  expect_stdout '^hapi$'
  complete_words tl-profile ''
  expect_stdout '^model$'
  complete_words tl-profile link --v
  expect_stdout '^--via$'
  complete_words tl-profile link --da
  [[ $(<out) == '' ]] || fail "link has no such option: $(<out)"
  complete_words tl-train --optimizer adam
  [[ $(paste -sd' ' out) == 'adam adamw' ]] || fail "wrong: $(<out)"
}

test_zsh_accepts_its_completion() {
  # Run as the completion system would, with its own functions replaced by ones that print.
  cat >try <<'END'
_arguments() { print -r -- "$service: $#"; state=command; words=(model); }
_files() { :; }
for service in tl-profile tl-split tl-extract tl-train tl-select; do . $1; done
END
  must zsh -f try "$TL_SOURCE/scripts/completions/_tl-tools"
  expect_quiet
  for program in "${PROGRAMS[@]}"; do expect_stdout "^$program: [0-9]+"; done
}

main "$@"
