"""Models of transformers, small, cut into four layers each, as zoo.py has its own: name: (layers, loss, batch)."""
import torch
import transformers
import zoo
from torch import nn
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

SIZES = {"hidden_size": zoo.WIDTH, "intermediate_size": 2 * zoo.WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2}
LANGUAGE = {**SIZES, "vocab_size": zoo.WORDS, "num_key_value_heads": 2, "max_position_embeddings": 2 * zoo.LENGTH}


class Calls(nn.Module):
    """A module, called with arguments that depend on its input's shape."""

    def __init__(self, inner, arguments=lambda x: {}):
        super().__init__()
        self.inner, self.arguments = inner, arguments

    def forward(self, x):
        found = self.inner(x, **self.arguments(x))
        return found if isinstance(found, torch.Tensor) else found[0]


class Words(nn.Module):
    """GPT-2's two embeddings."""

    def __init__(self, words, places):
        super().__init__()
        self.words, self.places = words, places

    def forward(self, x):
        return self.words(x) + self.places(torch.arange(x.shape[1]))


def gpt2(tied):
    config = transformers.GPT2Config(vocab_size=zoo.WORDS, n_positions=2 * zoo.LENGTH, n_embd=zoo.WIDTH, n_layer=2, n_head=2,
                                     tie_word_embeddings=tied, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config)
    inner = model.transformer
    return [Words(inner.wte, inner.wpe), *map(Calls, inner.h), nn.Sequential(inner.ln_f, model.lm_head)]


def rotated(model):
    """The layers of Llama and of models like it."""
    inner = model.model

    def arguments(x):
        places = torch.arange(x.shape[1])[None]
        return {"position_ids": places, "position_embeddings": inner.rotary_emb(x, places)}

    blocks = [Calls(each, arguments) for each in inner.layers]
    return [inner.embed_tokens, *blocks, nn.Sequential(inner.norm, model.lm_head)]


def llama():
    return rotated(transformers.LlamaForCausalLM(transformers.LlamaConfig(**LANGUAGE)))


def qwen():
    return rotated(transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**LANGUAGE)))


class Balanced(nn.Module):
    """Mixtral's block, with its own auxiliary loss."""

    def __init__(self, inner, config):
        super().__init__()
        self.inner, self.config = inner, config

    def forward(self, x):
        logits = []
        handle = self.inner.inner.mlp.gate.register_forward_hook(lambda _, inputs, found: logits.append(found[0]))
        x = self.inner(x)
        handle.remove()
        return zoo.WithLoss.apply(x, load_balancing_loss_func(tuple(logits), self.config.num_local_experts,
                                                              self.config.num_experts_per_tok))


def mixtral():
    config = transformers.MixtralConfig(**LANGUAGE, num_local_experts=3, num_experts_per_tok=2, experts_implementation="eager")
    first, *blocks, last = rotated(transformers.MixtralForCausalLM(config))
    return [first, *(Balanced(each, config) for each in blocks), last]


class Decodes(nn.Module):
    """T5's decoder over one start word a place; the encoder's states come in."""

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, states):
        start = torch.zeros(states.shape[:2], dtype=torch.long)
        return self.decoder(input_ids=start, encoder_hidden_states=states, use_cache=False)[0]


class Encodes(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, embedded):
        return self.encoder(inputs_embeds=embedded)[0]


def t5():
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=zoo.WORDS, d_model=zoo.WIDTH, d_kv=8, d_ff=2 * zoo.WIDTH, num_layers=1, num_heads=2, decoder_start_token_id=0))
    return [model.shared, Encodes(model.encoder), Decodes(model.decoder), model.lm_head]


def bert():
    model = transformers.BertForMaskedLM(transformers.BertConfig(**SIZES, vocab_size=zoo.WORDS, max_position_embeddings=2 * zoo.LENGTH,
                                                                 tie_word_embeddings=False))
    return [model.bert.embeddings, *map(Calls, model.bert.encoder.layer), model.cls]


def vit():
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**SIZES, image_size=zoo.PIXELS, patch_size=4, num_labels=4))
    layers = next(each for each in model.vit.modules() if isinstance(each, nn.ModuleList))
    return [model.vit.embeddings, *map(Calls, layers), nn.Sequential(model.vit.layernorm, zoo.First(), model.classifier)]


MODELS = {
    "transformers' gpt-2": (lambda: gpt2(False), zoo.words_loss, zoo.words),
    "transformers' gpt-2, tied": (lambda: gpt2(True), zoo.words_loss, zoo.words),
    "transformers' llama": (llama, zoo.words_loss, zoo.words),
    "transformers' qwen, padded": (qwen, zoo.padded_loss, zoo.padded),
    "transformers' mixtral": (mixtral, zoo.words_loss, zoo.words),
    "transformers' t5": (t5, zoo.words_loss, zoo.words),
    "transformers' bert": (bert, zoo.padded_loss, zoo.padded),
    "transformers' vit": (vit, nn.functional.cross_entropy, zoo.pictures),
}
