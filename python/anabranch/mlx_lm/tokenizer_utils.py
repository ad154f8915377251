"""The model's tokenizer, with the names of mlx-lm and Transformers, over the server's routes."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Union

from ..model import Model

# Of apply_chat_template in Transformers. Other names are variables of the template.
REFUSED = (
    "chat_template",
    "documents",
    "padding",
    "truncation",
    "max_length",
    "return_tensors",
    "return_dict",
    "return_assistant_tokens_mask",
    "tokenizer_kwargs",
)


class Tokenizer:
    def __init__(self, model: Model) -> None:
        self._model = model
        info: Dict[str, Any] = model.request("/tokenizer_info")
        self.bos_token: Optional[str] = info["bos_token"]
        self.eos_token: Optional[str] = info["eos_token"]
        self.chat_template: Optional[str] = info.get("chat_template")
        self.model_max_length: int = info["model_max_length"]

    def encode(self, text: str, add_special_tokens: bool = True) -> List[int]:
        return self._model.tokenize(text, add_special=add_special_tokens)

    def decode(self, token_ids: Union[int, Sequence[int]], skip_special_tokens: bool = False) -> str:
        if skip_special_tokens:
            raise TypeError("skip_special_tokens is not supported: the server does not tell which tokens are special")
        return self._model.detokenize([token_ids] if isinstance(token_ids, int) else token_ids)

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, Any]],
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
        add_generation_prompt: bool = False,
        tokenize: bool = True,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> Union[List[int], str]:
        for name in REFUSED:
            if variables.pop(name, None):
                raise TypeError(f"{name} is not supported by apply_chat_template")
        # Templates let the model think unless the variable is false; the server would decide by the question.
        text = self._model.apply_template(
            conversation,
            tools=[dict(tool) for tool in tools or []],
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            chat_template_kwargs={"enable_thinking": True, **variables},
        )
        return self.encode(text, add_special_tokens=False) if tokenize else text

    @property
    def bos_token_id(self) -> Optional[int]:
        return self._id(self.bos_token)

    @property
    def eos_token_id(self) -> Optional[int]:
        return self._id(self.eos_token)

    @property
    def eos_token_ids(self) -> Set[int]:
        """The one that ends a turn; the server knows the others."""
        return {one for one in [self.eos_token_id] if one is not None}

    def _id(self, token: Optional[str]) -> Optional[int]:
        return self.encode(token, add_special_tokens=False)[0] if token else None
