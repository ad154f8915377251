// The continuation of a text by a model that has no chat template, shown as an answer.

import * as api from "./api.js";
import {AnswerRun} from "./answer_run.js";

export class CompletionRun extends AnswerRun {
  get path() {
    return "/v1/completions";
  }

  take(chunk) {
    if (chunk.error) {
      this.outcome = {type: "response.failed", response: {error: chunk.error}};
      return;
    }
    const turn = this.turn, [choice] = chunk.choices || [];
    turn.model = chunk.model || turn.model;
    if (choice?.text) this.add(choice.text);
    if (choice?.finish_reason) this.finish = choice.finish_reason;
    this.about = chunk.anabranch || this.about;
    if (!chunk.usage) return;
    const {prompt_tokens, completion_tokens, prompt_tokens_details, speculation} = chunk.usage;
    if (this.message) this.message.status = "completed";
    this.finished({type: "response.completed", response: {
      model: chunk.model, anabranch: this.about, incomplete_details: this.finish === "length" ? {reason: "max_output_tokens"} : null,
      usage: {input_tokens: prompt_tokens, output_tokens: completion_tokens, speculation,
        input_tokens_details: {cached_tokens: prompt_tokens_details?.cached_tokens || 0}},
    }});
    this.changed(null);
  }

  add(text) {
    this.writes();
    if (!this.message) {
      this.message = {type: "message", role: "assistant", status: "in_progress", content: [{type: "output_text", text: ""}]};
      this.turn.items.push(this.message);
    }
    this.message.content[0].text += text;
    this.changed(this.message);
  }
}
