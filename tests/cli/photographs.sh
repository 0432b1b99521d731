#!/bin/bash
# The whole pipeline on real photographs with ImageNet-trained networks, where they are: a folder with
# malaria/, trashnet/ and weights/ beside the checkout, or named by TL_PHOTOGRAPHS. Elsewhere there is nothing
# to test, and the theme says so.
. "$(dirname "$0")/lib.sh"

REAL=${TL_PHOTOGRAPHS:-$TL_SOURCE/../shared/data}
if [[ ! -d $REAL/weights ]]; then
  echo "skipped: no photographs in $REAL"
  exit 77
fi

# accuracy NETWORK DATA PREPROCESS LIMIT OUT: profile, split, extract and train; the best validation accuracy.
accuracy() {
  must tl-profile model "$1" --data "$REAL/$2" --preprocess "$3" --limit 8 --batches 4 --seconds 1 -o "$5.profile"
  must tl-split --storage "$5.profile" --link 100Mbit/s --head linear --algorithm freeze -o "$5.plan"
  run_shell "tl-extract --plan $5.plan $REAL/$2 --limit $4 -o - |
    tl-train --plan $5.plan - --epochs 30 --lr 0.003 --validation 0.3 --monitor accuracy --json $5.json -o $5"
  expect_status 0
  json "$5.json" 'd["validation"]["accuracy"]'
}

# expect_better A B: A is at least B and 0.15.
expect_better() {
  awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b + 0.15) }' || fail "accuracy $1 with pretrained features, $2 without"
}

test_trashnet_with_mobilenet() {
  local how=imagenet,resize=129,crop=129 trained untrained
  network mobilenet_v2 untrained.pt --seed 1
  trained=$(accuracy "$REAL/weights/mobilenet_v2_imagenet_backbone.ts" trashnet "$how" 40 trained) || exit 1
  untrained=$(accuracy untrained.pt trashnet "$how" 40 untrained) || exit 1
  expect_better "$trained" "$untrained"
}

test_trashnet_with_squeezenet() {
  local how=imagenet,resize=129,crop=129 trained untrained
  network squeezenet1_0 untrained.pt --seed 1
  trained=$(accuracy "$REAL/weights/squeezenet1_0_imagenet.ts" trashnet "$how" 40 trained) || exit 1
  untrained=$(accuracy untrained.pt trashnet "$how" 40 untrained) || exit 1
  expect_better "$trained" "$untrained"
}

test_malaria_with_mobilenet() {
  local how=imagenet,resize=97,crop=97 trained untrained
  network mobilenet_v2 untrained.pt --seed 1
  trained=$(accuracy "$REAL/weights/mobilenet_v2_imagenet_backbone.ts" malaria "$how" 150 trained) || exit 1
  untrained=$(accuracy untrained.pt malaria "$how" 150 untrained) || exit 1
  expect_better "$trained" "$untrained"
}

main "$@"
