"""build_tok.py TEACHER.gguf -> tok/: the teacher's tokenizer with think and tool tokens on spare ids"""
import json, sys
from common import read_gguf
from tokenizers import Tokenizer, models, pre_tokenizers, decoders, AddedToken
kv, _ = read_gguf(sys.argv[1])
toks = kv['tokenizer.ggml.tokens']; merges = kv['tokenizer.ggml.merges']
new = {4: '<think>', 10: '</think>', 13: '<tool_call>', 14: '</tool_call>', 15: '<tool_response>', 16: '</tool_response>'}
orig = list(toks)
for i, t in new.items():
    assert i < 17 and t not in toks
    toks[i] = t
vocab = {t: i for i, t in enumerate(toks)}
assert len(vocab) == 49152
m = [tuple(x.split(' ')) for x in merges]
tk = Tokenizer(models.BPE(vocab=vocab, merges=m, fuse_unk=False))
tk.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)])
tk.decoder = decoders.ByteLevel(add_prefix_space=True, trim_offsets=True, use_regex=True)
tk.add_special_tokens([AddedToken(toks[i], special=True, normalized=False) for i in range(17) if i not in new])
tk.add_tokens([AddedToken(new[i], special=False, normalized=False) for i in new])
import os
os.makedirs('tok', exist_ok=True)
tk.save('tok/tokenizer.json')
tpl = open('../../models/hybrid-146m/chat_template.jinja').read()
open('tok/chat_template.jinja', 'w').write(tpl)
cfg = dict(add_prefix_space=False, added_tokens_decoder={str(i): dict(content=toks[i], lstrip=False, normalized=False, rstrip=False, single_word=False, special=i not in new) for i in range(17)},
  additional_special_tokens=['<|im_start|>', '<|im_end|>'], bos_token=None, clean_up_tokenization_spaces=False, eos_token='<|im_end|>', pad_token='<|endoftext|>', unk_token=None, errors='replace',
  model_max_length=8192, tokenizer_class='PreTrainedTokenizerFast', split_special_tokens=False)
json.dump(cfg, open('tok/tokenizer_config.json', 'w'), indent=2)
json.dump(dict(do_sample=True, eos_token_id=[2, 0], pad_token_id=0, temperature=0.6, top_k=20, top_p=0.95), open('tok/generation_config.json', 'w'), indent=2)
# vocab.json / merges.txt as real Qwen3.5 repos ship them
json.dump(vocab, open('tok/vocab.json', 'w'), ensure_ascii=False)
open('tok/merges.txt', 'w').write('#version: 0.2\n' + '\n'.join(merges) + '\n')
print(tk.encode('<|im_start|>user\nHello 123 world<|im_end|>\n<think>\n\n</think>\n\n').tokens)
