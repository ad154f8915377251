// A body for each operation that takes one, to copy and to send. They are small, so that an answer comes at once.

export const MODEL = "MODEL";  // stands for a model that is here

const QUESTION = [{role: "user", content: "Name three rivers."}];

export const BODIES = {
  createChatCompletion: {messages: QUESTION, max_tokens: 100, stream: true},
  createCompletion: {prompt: "The three longest rivers are", max_tokens: 32},
  createResponse: {input: "Name three rivers.", max_output_tokens: 100, stream: true},
  countInputTokens: {input: "Name three rivers."},
  compactResponse: {input: [...QUESTION, {role: "assistant", content: "The Danube, the Rhine and the Elbe."}]},
  createConversation: {items: [{type: "message", role: "user", content: "Name three rivers."}], metadata: {topic: "rivers"}},
  addConversationItems: {items: [{type: "message", role: "user", content: "And three lakes?"}]},
  changeConversation: {metadata: {topic: "lakes"}},
  embed: {input: ["A river", "A lake"]},
  rerank: {query: "Which text is about water?", documents: ["The river is deep.", "The train is late."]},
  lookUpStates: {version: "0.2.0", fingerprint: "0".repeat(32), keys: ["0".repeat(32)]},
  createMessage: {max_tokens: 100, messages: QUESTION},
  countTokens: {messages: QUESTION},
  ollamaChat: {model: MODEL, messages: QUESTION, options: {num_predict: 100}},
  ollamaGenerate: {model: MODEL, prompt: "Name three rivers.", options: {num_predict: 100}},
  ollamaEmbed: {model: MODEL, input: "A river"},
  ollamaEmbedding: {model: MODEL, prompt: "A river"},
  ollamaModel: {model: MODEL},
  ollamaPull: {model: "unsloth/Qwen3.5-0.8B-GGUF"},
  llamaCompletion: {prompt: "The three longest rivers are", n_predict: 32},
  infill: {input_prefix: "def add(a, b):\n    return ", input_suffix: "\n", n_predict: 16},
  tokenize: {content: "Name three rivers.", with_pieces: true},
  detokenize: {tokens: [1, 2, 3]},
  applyTemplate: {messages: QUESTION},
  countChatTokens: {messages: QUESTION},
  generate: {prompt_token_ids: [1, 2, 3], max_tokens: 16},
  createSession: {title: "Rivers"},
  importSessions: {jsonl: '{"session": {"title": "Rivers"}}\n{"role": "user", "content": "Name three rivers."}\n'},
  branchSession: {message: "msg_1", title: "Another way"},
  addMessages: {messages: QUESTION},
  changeSession: {title: "Lakes"},
  loadModel: {model: MODEL},
  unloadModel: {model: MODEL},
  loadAdapter: {lora_name: "poet", lora_path: "poet"},
  unloadAdapter: {lora_name: "poet"},
  slotAction: {filename: "rivers.bin"},
  scaleAdapters: [{id: 0, scale: 1}],
  pullModel: {model: "unsloth/Qwen3.5-0.8B-GGUF"},
};

// What stands for {id} and the like.
export const PARAMETERS = {listSessions: {limit: "10"}, exportSession: {format: "markdown"}, listConversationItems: {limit: "10"}};
