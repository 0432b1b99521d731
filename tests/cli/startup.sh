#!/bin/bash
# What a program loads before it has anything to do: LibTorch and OpenCV take longer than all the rest.
. "$(dirname "$0")/lib.sh"

# loaded COMMAND...: the shared libraries that it loads, one a line.
loaded() { LD_DEBUG=files "$@" 2>&1 </dev/null | sed -n 's/.*file=\([^ ]*\) .*; *generating link map.*/\1/p' | sort -u; }

test_help_and_mistakes_load_no_network_library() {
  local call
  for program in "${PROGRAMS[@]}"; do
    for call in --help --version --no-such-option ''; do
      # shellcheck disable=SC2086 # an empty call has no argument
      loaded "$program" $call >libraries
      grep -q 'libc\.so' libraries || fail "$program $call: loads nothing at all"
      ! grep -Eq 'libtorch|libopencv' libraries ||
        fail "$program $call: loads $(grep -E 'libtorch|libopencv' libraries | paste -sd' ')"
    done
  done
}

test_work_loads_libtorch() {
  loaded tl-extract --model none.pt --cut x . -o ../y >libraries
  grep -q libtorch libraries || fail "a program at work is not told from one that is not"
}

test_a_program_without_its_other_half_says_so() {
  mkdir -p away/bin
  cp "$TL_BIN/tl-train" away/bin
  run away/bin/tl-train --model m.pt --data . --head linear -o run
  expect_status 1
  expect_error 'away/bin/\.\./libexec/tl-tools/tl-train, which belongs to this program: No such file'
}

test_openmp_threads_sleep_unless_the_user_says_otherwise() {
  mkdir -p away/bin away/libexec/tl-tools
  cp "$TL_BIN/tl-profile" away/bin
  # shellcheck disable=SC2016 # that program expands them
  printf '#!/bin/sh\necho "$OMP_WAIT_POLICY $GOMP_SPINCOUNT $*"\n' >away/libexec/tl-tools/tl-profile
  chmod +x away/libexec/tl-tools/tl-profile
  run env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT away/bin/tl-profile host --threads 1
  [[ $(<out) == 'passive  host --threads 1' ]] || fail "by default: $(<out)"
  run env OMP_WAIT_POLICY=active away/bin/tl-profile host
  [[ $(<out) == 'active  host' ]] || fail "a policy of the user: $(<out)"
  run env -u OMP_WAIT_POLICY GOMP_SPINCOUNT=9 away/bin/tl-profile host
  [[ $(<out) == ' 9 host' ]] || fail "a count of the user: $(<out)"
}

main "$@"
