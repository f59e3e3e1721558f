#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/abi/junit.sh COMMAND: `anydnn check --junit` as a CI of a program runs it, on the CPU: exit codes; the report is
# well-formed whatever the lines hold, agrees with what was printed, and a failure's text repeats it.
# Limits: well-formedness needs xmllint or python3; without either it is not looked at.
command=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
passed=0 failed=0

check() { # TEXT, then a command that must succeed
    local text=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "failed: $text"; fi
}

run() { # wanted exit code, report, arguments
    local want=$1 report=$2
    shift 2
    rm -f "$report"
    "$command" check --junit "$report" "$@" >out.txt 2>err.txt </dev/null
    check "exit code of check $* is $want" test $? -eq "$want"
}

well_formed() {
    if [ -n "$(command -v xmllint)" ]; then xmllint --noout "$1"
    elif [ -n "$(command -v python3)" ]; then python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$1"
    fi
}

holds() { grep -qF -- "$2" "$1"; }
counts() { [ "$(grep -c "$2" "$1")" -eq "$3" ]; }

{
    echo '# a comment'
    echo 'matmul a=8x8/f32 b=8x8/f32   # another'
    echo '!invalid matmul a=8x8/f32 b=9x8/f32'
    echo '!unsupported:cpu fill y=4/f32'
    echo 'no_such_operation x=1/f32'
    echo "fill y=4/f32 <&\"'>]]>"
    echo '!word fill y=4/f32'
    printf 'fill y=4/f32 \001\033\177\303\251\n'
} >odd.lines
run 1 odd.xml --device cpu -f odd.lines
check 'odd lines: well-formed' well_formed odd.xml
check 'odd lines: counts of all' holds odd.xml '<testsuites name="anydnn check" tests="7" failures="5" errors="0" time='
check 'odd lines: counts of the device' holds odd.xml '<testsuite name="cpu" tests="7" failures="5" errors="0" skipped="0">'
check 'odd lines: cases' counts odd.xml '<testcase ' 7
check 'odd lines: failures with text' counts odd.xml '<failure type="check" message="[^"]\+">[^<]' 5
check 'odd lines: a failure over two lines of text' holds odd.xml 'anydnn check --device cpu --seed '
check 'odd lines: as printed' holds out.txt '2 passed, 5 failed, 0 skipped'
check 'odd lines: no raw markup' holds odd.xml '&#60;&#38;&#34;&#39;&#62;]]&#62;'

echo 'matmul a=8x8/f32 b=8x8/f32' >good.lines
run 0 good.xml --device cpu -f good.lines good.lines
check 'good lines: well-formed' well_formed good.xml
check 'good lines: counts' holds good.xml '<testsuite name="cpu" tests="2" failures="0" errors="0" skipped="0">'
run 0 all.xml --device all -f good.lines
check 'all devices: well-formed' well_formed all.xml
run 2 missing.xml --device cpu -f no_such_file
run 2 malformed.xml --device cpu fill y=4q
check 'a malformed line: a failure' counts malformed.xml '<failure ' 1
check 'a malformed line: well-formed' well_formed malformed.xml
run 3 empty.xml --device cpu -f /dev/null
check 'no line: well-formed' well_formed empty.xml
run 77 absent.xml --device no_such_device -f good.lines
run 1 no_such_folder/report.xml --device cpu -f good.lines
run 0 random.xml --device cpu --random 5 --seed 3
check 'random lines: well-formed' well_formed random.xml

# The command in a failure's text fails again, and alone.
sed -n 's/.*>\(anydnn check .*\)/\1/p' odd.xml | head -1 | sed 's/&#39;/'"'"'/g; s/&#38;/\&/g' >again.txt
check 'a command is there' test -s again.txt
eval "set -- $(sed 's/^anydnn check //' again.txt)"
"$command" check "$@" >out.txt 2>&1
check 'the command runs' test $? -ne 77
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
