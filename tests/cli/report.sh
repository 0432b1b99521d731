#!/bin/bash
# tl-select --html: one file that stands alone, whatever things are called.
. "$(dirname "$0")/lib.sh"

setup() {
  pictures photos 12 'a<b>&"c' dog "it's <table>"
  network tiny_resnet net.pt --input 3x32x32 --random-statistics
}

experiment() {
  cat >experiment.json <<END
{"format": "tl-experiment", "version": 1,
 "models": [{"name": "<net>", "path": "$SHARED/net.pt", "preprocess": "raw,resize=32x32"}],
 "defaults": {"epochs": 3, "lr": 0.01}, "candidates": $1}
END
}

# What a browser would see, as JSON: tags that are not closed, links, tables with and without caption, texts.
look_at() {
  "$PYTHON" - "$1" >seen.json <<'END' || fail "$1 is no HTML that can be read"
import html.parser, json, sys
class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links, self.texts, self.wrong = [], [], [], [], []
    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "action", "data")]
        if tag != "meta": self.open.append(tag)
    def handle_startendtag(self, tag, attributes): self.tags.append(tag)
    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag: self.wrong.append(tag)
    def handle_data(self, data): self.texts.append(data)
page = Page()
page.feed(open(sys.argv[1], encoding="utf-8").read())
page.close()
json.dump({"open": page.open, "wrong": page.wrong, "tags": page.tags, "links": page.links, "texts": page.texts}, sys.stdout)
END
}

test_the_report_stands_alone() {
  experiment '[{"head": ["linear", "mlp:8"]}, {"features": "layer2"}, {"lr": 1e30, "head": "mlp:4"}]'
  must tl-select experiment.json "$SHARED/photos" -o runs --html report.html
  look_at report.html
  expect_json seen.json "d['open'] == [] and d['wrong'] == [] and d['links'] == []"
  expect_json seen.json "d['tags'].count('table') == d['tags'].count('caption') == 2 and d['tags'].count('svg') == 3"
  expect_json seen.json "all(any(name == text for text in d['texts']) for name in ['a<b>&\"c', 'dog', 'it\'s <table>'])"
  expect_json seen.json "any(text.startswith('failed: ') for text in d['texts']) and d['texts'].count('<net>') == 4"
  grep -q "$PWD" report.html && fail "the report names this machine's folders"
  must tl-select experiment.json "$SHARED/photos" -o runs --html again.html
  look_at again.html
  expect_json seen.json "d['open'] == [] and d['tags'].count('svg') == 3"
  cp -r "$SHARED/photos" photos # more labels: a second cycle, and so a labelling curve
  pictures more 2 dog
  for file in more/dog/*; do cp "$file" "photos/dog/new-${file##*/}"; done
  must tl-select experiment.json photos -o runs --html later.html
  look_at later.html
  expect_json seen.json "d['open'] == [] and d['wrong'] == [] and d['links'] == [] and d['tags'].count('svg') == 4"
  expect_no_leftovers .
}

test_a_report_needs_a_place() {
  experiment '[{}]'
  run tl-select experiment.json "$SHARED/photos" -o runs --html -
  expect_status 2
  expect_error 'takes a file'
  expect_absent runs
  run tl-select experiment.json "$SHARED/photos" -o runs --html /dev/full
  [[ $status != 0 ]] || fail "a full disk is no failure"
  expect_stderr 'No space left'
}

main "$@"
