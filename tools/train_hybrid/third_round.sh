#!/usr/bin/env bash
# The third round of training, in order: third_round.sh STAGE
#
#   prompts    CPU   the teacher for a GPU, prose, and the prompts                     needs TEACHER_GGUF, PACKAGES
#   generate   GPU   the teacher's answers, filtered                                   SECS (870): how long it writes
#   documents  CPU   the training documents of all five kinds
#   train      GPU   training, the MTP head, the 8-bit checkpoint, and 60 questions    SECS (1260), MTP_SECS (170)
#   tune       GPU   quantisation-aware tuning of the 4-bit weights                    SECS (55)
#   assemble   CPU   the model's directory
#
# Everything is read and written below DATA. If the GPU is in another machine, it needs tools/train_hybrid and
# tools/quantise_hybrid, and of the data: for generate $DATA/teacher and $DATA/prompts.json, for train and tune $DATA/docs,
# START, SMOLLM2_GGUF and RECIPE. README.md says what everything is.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
stage=${1:?usage: third_round.sh prompts|generate|documents|train|tune|assemble}
DATA=$(realpath -m "${DATA:-third}")
START=${START:-$DATA/start}                  # 8-bit checkpoint that training starts from, with its tokenizer and template
RECIPE=${RECIPE:-$here/../../models/hybrid-146m/recipe.json}
WORDNET=${WORDNET:-/usr/share/wordnet}       # of Debian's wordnet-base
export WORK=$DATA/work PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false GDN_IMPL=${GDN_IMPL:-fla}
mkdir -p "$DATA/docs" "$WORK"
for name in START RECIPE TEACHER_GGUF PACKAGES SMOLLM2_GGUF; do
  if [[ -n ${!name-} ]]; then printf -v "$name" %s "$(realpath -m "${!name}")"; fi
done
cd "$here"
gpus() { nvidia-smi -L | wc -l; }

# Each process sees its own GPU alone, if they can talk that way: then all of them find the same compiled code.
# shellcheck disable=SC2016
own() { torchrun --nproc-per-node "$(gpus)" --no-python bash -c 'CUDA_VISIBLE_DEVICES=$LOCAL_RANK exec python3 "$@"' - "$@"; }
all() { torchrun --nproc-per-node "$(gpus)" "$@"; }
export -f gpus own all

case $stage in
prompts)
  python3 pack_teacher.py "$TEACHER_GGUF" "$DATA/teacher"
  python3 build_prose.py "$PACKAGES" "$START/tokenizer.json" "$DATA/docs/prose.npz" "$DATA/quotes.json"
  python3 build_prompts.py --wordnet "$WORDNET" --quotes "$DATA/quotes.json" --tokenizer "$START/tokenizer.json" \
    --out "$DATA/prompts.json"
  ;;
generate)
  running=()
  for rank in $(seq 0 $(($(gpus) - 1))); do
    CUDA_VISIBLE_DEVICES=$rank TORCHINDUCTOR_CACHE_DIR=$WORK/inductor$rank TRITON_CACHE_DIR=$WORK/triton$rank \
      python3 generate_answers.py --teacher "$DATA/teacher" --prompts "$DATA/prompts.json" --out "$DATA/tokens" \
      --secs "${SECS:-870}" --rank "$rank" --rows 4096 > "$WORK/generate$rank.log" 2>&1 &
    running+=("$!")
  done
  for one in "${running[@]}"; do wait "$one"; done
  python3 filter_answers.py --tokens "$DATA/tokens" --tokenizer "$DATA/teacher/qtok.json" --prompts "$DATA/prompts.json" \
    --out "$DATA/answers"
  ;;
documents)
  python3 build_answers.py --answers "$DATA/answers" --tokenizer "$START/tokenizer.json" --out "$DATA/docs/answers.npz" --procs 2
  python3 build_own.py --wordnet "$WORDNET" --quotes "$DATA/quotes.json" --tokenizer "$START/tokenizer.json" --procs 2 \
    --out "$DATA/docs/own.npz"
  python3 build_filler.py --tokenizer "$START/tokenizer.json" --out "$DATA/filler.u16.xz"
  python3 word_list.py "$WORDNET" "$DATA/words.json"
  templates=(--tokenizer "$START" --filler "$DATA/filler.u16.xz" --words "$DATA/words.json")
  python3 build_everyday.py "${templates[@]}" --out "$DATA/docs/every.npz" --seed 2 --scale 0.6
  python3 build_tools.py "${templates[@]}" --out "$DATA/docs/tools.npz" --seed 3 --count 16000
  ;;
train)
  ln -sf "$SMOLLM2_GGUF" "$WORK/teacher.gguf"
  python3 mlx_8bit.py unpack "$START"
  if timeout 60 bash -c 'own nccl_try.py'; then run=own; else run=all; fi
  $run train_third.py --data "$DATA/docs" --secs "${SECS:-1260}" 2>&1 | tee "$WORK/train.log"
  $run train_mtp_third.py --data "$DATA/docs" --secs "${MTP_SECS:-170}" 2>&1 | tee "$WORK/mtp.log"
  python3 mlx_8bit.py pack "$START" "$DATA/8bit"
  NOCOMPILE=1 python3 ask60.py "$WORK/main.pt" "$START/tokenizer.json" think | tee "$WORK/ask60.log"
  ;;
tune)
  python3 ../quantise_hybrid/tune_on_gpu.py --data "$DATA/docs" --recipe "$RECIPE" --secs "${SECS:-55}" \
    --out "$DATA/tuned.safetensors"
  ;;
assemble)
  python3 ../quantise_hybrid/assemble.py "$DATA/8bit" "$DATA/tuned.safetensors" "$RECIPE" "$DATA/hybrid-146m"
  ;;
*)
  echo "no stage $stage" >&2
  exit 2
  ;;
esac
