"""Models whose forward is more than one layer after the other, and a process that trains a rank of them: for each {"model", "plan"} of a
list of JSON it prints {"weights": {name: digest after the last step}, "losses"}, or {"error"}."""
import functools
import hashlib
import importlib.util
import math
import os

import models
import torch
from torch import nn

import pipec
import pipec.torch

SOAK = os.environ.get("PIPEC_SOAK", "") not in ("", "0")
STEPS, ROWS, MICROBATCHES = 5 if SOAK else 2, 8, 4
BLOCKS = 6 if SOAK else 3  # of a model: eight layers at least, for four ranks of two stages
WORDS, WIDTH, LENGTH, PIXELS = 32, 16, 6, 8


class Block(nn.Module):
    """Attends to itself, with a mask and to an encoder's states where it is given these; gives a tuple. What its router says stays
    within."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 2)
        self.attention, self.feed = nn.MultiheadAttention(WIDTH, 2, batch_first=True), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask=None, states=None, places=None):
        x = x if places is None else x + places
        of = x if states is None else states
        y = self.attention(x, of, of, key_padding_mask=None if mask is None else ~mask, need_weights=False)[0]
        return x + self.feed(y).tanh() * self.router(y).softmax(-1)[..., :1], "no tensor"


class Writer(nn.Module):
    """An encoder and a decoder. Words go into the decoder by a keyword, a mask too, and the routers' numbers come out through hooks."""

    def __init__(self):
        super().__init__()
        self.words, self.written = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.randn(LENGTH, WIDTH))
        self.register_buffer("scale", torch.rand(LENGTH, WIDTH))
        self.reads, self.writes = nn.ModuleList(Block() for _ in range(3)), nn.ModuleList(Block() for _ in range(3))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.kept = []
        for block in (*self.reads, *self.writes):
            block.router.register_forward_hook(lambda _, __, found: self.kept.append(found))

    def forward(self, x, *, written, mask=None, weigh=1.0):
        self.kept.clear()
        mask = None if mask is None else mask.bool() & (torch.arange(LENGTH) < LENGTH)
        hidden = self.words(x) + self.places * self.scale
        hidden[:, 0] = hidden[:, 0] * 2
        hidden = nn.functional.dropout(hidden, 0.0, self.training)
        for block in self.reads:
            hidden = block(hidden, mask)[0]
        states, hidden = self.norm(hidden), self.written(written)
        for block in self.writes:
            hidden = block(hidden, places=self.scale, mask=mask, states=states)[0]
        with torch.no_grad():
            largest = hidden.abs().max()
        routers = sum(each.logsumexp(-1).square().mean() for each in self.kept)
        return {"logits": self.head(hidden), "routers": weigh * routers, "largest": largest}


class Timed(nn.Module):
    """A U-Net's block: convolutions that are told the time step."""

    def __init__(self, before, behind):
        super().__init__()
        self.time, self.beside = nn.Linear(WIDTH, behind), nn.Conv2d(before, behind, 1)
        self.norm, self.first = nn.GroupNorm(2, before), nn.Conv2d(before, behind, 3, padding=1)
        self.second = nn.Conv2d(behind, behind, 3, padding=1)

    def forward(self, x, time):
        y = self.first(nn.functional.silu(self.norm(x))) + self.time(time)[:, :, None, None]
        return self.beside(x) + self.second(nn.functional.silu(y))


class UNet(nn.Module):
    """Says the noise in a picture at a time step."""

    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.first, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 3, 3, padding=1)
        self.downs = nn.ModuleList([Timed(4, 4), Timed(4, 8), Timed(8, 8)])
        self.middle = Timed(8, 8)
        self.ups = nn.ModuleList([Timed(16, 8), Timed(16, 4), Timed(8, 4)])

    def forward(self, x, time):
        angles = time[:, None] * torch.exp(torch.arange(WIDTH // 2) * (-math.log(1e4) / (WIDTH // 2)))
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        x, skips = self.first(x), []
        for down in self.downs:
            x = down(x, time)
            skips.append(x)
            x = nn.functional.avg_pool2d(x, 2)
        x = self.middle(x, time)
        for up in self.ups:
            x = up(torch.cat([nn.functional.interpolate(x, scale_factor=2), skips.pop()], 1), time)
        return self.last(x)


class Lora(nn.Module):
    """A frozen linear layer, beside which a small one is trained."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down, self.up = nn.Linear(base.in_features, 2, bias=False), nn.Linear(2, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def words(step):
    found = torch.randint(1, WORDS, (ROWS, LENGTH + 1), generator=torch.Generator().manual_seed(step))
    return found[:, :-1].contiguous(), found[:, 1:].contiguous()


def masks(step):
    """What counts of each row, from its begin on; at least one of each microbatch is shorter than the others."""
    lengths = torch.randint(1, LENGTH, (ROWS, 1), generator=torch.Generator().manual_seed(100 + step))
    return (torch.arange(LENGTH) < lengths).long()


def pictures(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(ROWS, 3, PIXELS, PIXELS, generator=generator), torch.randint(0, 4, (ROWS,), generator=generator)


def sounds(step):
    return torch.randn(ROWS, 8, 2 * LENGTH, generator=torch.Generator().manual_seed(step)), words(step)[1]


def noisy(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(ROWS, 3, PIXELS, PIXELS, generator=generator), torch.randn(ROWS, 3, PIXELS, PIXELS, generator=generator)


def times(step):
    return torch.randint(0, 1000, (ROWS,), generator=torch.Generator().manual_seed(100 + step))


def written_loss(output, target):
    return nn.functional.cross_entropy(output["logits"].flatten(0, 1), target.flatten()) + 0.01 * output["routers"]


def logits_loss(output, target):
    return nn.functional.cross_entropy(output.logits.flatten(0, -2), target.flatten())


def routed_loss(output, target):
    return logits_loss(output, target) + 0.1 * output.aux_loss


def own_loss(output, target):
    """The model's own."""
    return output.loss


# name: (model, loss, batch, keywords).
MODELS = {
    "writer": (Writer, written_loss, words, lambda step: {"written": words(step)[0].flip(1), "mask": masks(step), "weigh": 0.5}),
    "u-net": (UNet, nn.functional.mse_loss, noisy, lambda step: {"time": times(step)}),
}

if importlib.util.find_spec("transformers"):
    import transformers

    SIZES = {"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": BLOCKS, "num_attention_heads": 2}
    LANGUAGE = {**SIZES, "vocab_size": WORDS, "num_key_value_heads": 2, "max_position_embeddings": 2 * LENGTH}
    # Without dropout: a pipeline's numbers are others than a loop's over the whole model.
    BERT = {**SIZES, "vocab_size": WORDS, "max_position_embeddings": 2 * LENGTH, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
    T5 = {"vocab_size": WORDS, "d_model": WIDTH, "d_kv": 8, "d_ff": 2 * WIDTH, "num_layers": BLOCKS // 2 + 1, "num_heads": 2, "decoder_start_token_id": 0,
          "dropout_rate": 0}
    WHISPER = {"vocab_size": WORDS, "d_model": WIDTH, "encoder_layers": BLOCKS // 2 + 1, "decoder_layers": BLOCKS // 2 + 1, "encoder_attention_heads": 2,
               "decoder_attention_heads": 2, "encoder_ffn_dim": 2 * WIDTH, "decoder_ffn_dim": 2 * WIDTH, "num_mel_bins": 8,
               "max_source_positions": LENGTH, "max_target_positions": 2 * LENGTH, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
               "decoder_start_token_id": 1}

    def gpt2(tied):
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=WORDS, n_positions=2 * LENGTH, n_embd=WIDTH, n_layer=BLOCKS, n_head=2, bos_token_id=0, eos_token_id=0, resid_pdrop=0,
            embd_pdrop=0, attn_pdrop=0, tie_word_embeddings=tied))

    def lora():
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LANGUAGE)).requires_grad_(False)
        for block in model.model.layers:
            attention = block.self_attn
            attention.q_proj, attention.v_proj = Lora(attention.q_proj), Lora(attention.v_proj)
        return model

    def mixtral():
        return transformers.MixtralForCausalLM(transformers.MixtralConfig(**LANGUAGE, num_local_experts=3, num_experts_per_tok=2,
                                                                          output_router_logits=True))

    def none(_):
        return {}

    def masked(step):
        return {"attention_mask": masks(step)}

    MODELS |= {
        "gpt-2": (lambda: gpt2(False), logits_loss, words, none),
        "gpt-2, tied": (lambda: gpt2(True), logits_loss, words, none),
        "llama": (lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**LANGUAGE)), own_loss, words,
                  lambda step: {"labels": words(step)[1]}),
        "lora": (lora, logits_loss, words, none),
        "qwen": (lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**LANGUAGE)), logits_loss, words, masked),
        "mixtral": (mixtral, routed_loss, words, none),
        "bert": (lambda: transformers.BertForMaskedLM(transformers.BertConfig(**BERT, tie_word_embeddings=False)), logits_loss, words, masked),
        "vit": (lambda: transformers.ViTForImageClassification(transformers.ViTConfig(
            **SIZES, image_size=PIXELS, patch_size=4, num_labels=4)), logits_loss, pictures, none),
        "t5": (lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(**T5)), logits_loss, words,
               lambda step: {"decoder_input_ids": words(step)[0].flip(1)}),
        "whisper": (lambda: transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**WHISPER, tie_word_embeddings=False)),
                    logits_loss, sounds, lambda step: {"decoder_input_ids": words(step)[0]}),
    }


def made(name):
    """A model, the same in every process, its loss, and what makes batches and keywords."""
    model, loss, batch, keywords = MODELS[name]
    torch.manual_seed(3)
    return model().train(), loss, batch, keywords


def part(value, microbatch):
    return value.chunk(MICROBATCHES)[microbatch] if isinstance(value, torch.Tensor) else value


def digests(state):
    """{name: digest} of the last bit."""
    return {name: hashlib.sha256(value.detach().contiguous().numpy().tobytes()).hexdigest() for name, value in state.items()}


def layers_of(model, batch, keywords):
    """A model's layers, as they go on the first microbatch."""
    return pipec.torch.layers(model, example=part(batch(0)[0], 0), **{key: part(value, 0) for key, value in keywords(0).items()})


def apart(stages, ranks):
    """[{rank: [parameters in one memory]}]: a weight that modules of several stages share gets a parameter of its own in each of them
    but the first. stages: [a stage's layers]; ranks: of each stage."""
    found = {}
    for layers, rank in zip(stages, ranks):
        own = {}  # {id of a parameter: the stage's}
        for module in (module for layer in layers for module in layer.modules()):
            for name, p in module._parameters.items():
                if p is not None and id(p) not in own:
                    of_ranks = found.setdefault(id(p), {})
                    own[id(p)] = nn.Parameter(p.data, p.requires_grad) if of_ranks else p
                    own[id(own[id(p)])] = own[id(p)]
                    of_ranks.setdefault(rank, []).append(own[id(p)])
                module._parameters[name] = own.get(id(p))
    return [of_ranks for of_ranks in found.values() if sum(map(len, of_ranks.values())) > 1]


def add_up(of_ranks):
    """Sums the gradients of a shared weight as ranks do: those of each one's stages, then block by block around the ring of ranks."""
    parts = [functools.reduce(torch.add, (p.grad for p in of_ranks[rank])).flatten() for rank in sorted(of_ranks)]
    for p in (p for uses in of_ranks.values() for p in uses):
        p.grad = None
    count, total = len(parts), torch.empty_like(parts[0])
    for block in range(count):
        where = slice(len(total) * block // count, len(total) * (block + 1) // count)
        total[where] = functools.reduce(torch.add, (parts[(block + 1 + n) % count][where] for n in range(count)))
    first = next(iter(of_ranks.values()))[0]
    first.grad = total.view(first.shape)


def plain(name, cut, ranks):
    """({name: digest}, losses) of one process that trains the whole model. cut: how many layers each stage has; ranks: of each stage.
    Gradients of a weight that several stages use are summed once a step, as ranks do it."""
    model, loss, batch, keywords = made(name)
    layers = layers_of(model, batch, keywords)
    tied = apart([layers[sum(cut[:n]):sum(cut[:n + 1])] for n in range(len(cut))], ranks)

    def run(stages, step, given, m):
        x, target = given
        return loss(stages[0][0](part(x, m), **{key: part(value, m) for key, value in keywords(step).items()}), part(target, m)), 1

    _, losses = models.alone([model], [1], map(batch, range(STEPS)), MICROBATCHES, run, lambda: [*map(add_up, tied)])
    return digests(model.state_dict()), losses


def digests_of(modules):
    """{name: digest} of the weights of a rank's stages."""
    return {name: each for stage in modules.values() for layer in stage for name, each in digests(layer.state_dict()).items()}


def train(case):
    plan = pipec.load(case["plan"])
    rank, _ = plan.place()
    model, loss, batch, keywords = made(case["model"])
    layers = layers_of(model, batch, keywords)
    modules = pipec.torch.stages(plan, layers, rank)
    own, losses = models.adamw(modules.values()), []
    with pipec.torch.Run(plan, modules, loss=loss, progress=False, checkpoint=case["states"]) as run:
        for step in range(STEPS):
            x, target = batch(step)
            losses.append(run.step(x, target=target, **keywords(step)).item())
            own.step()
            own.zero_grad()
    return {"weights": digests_of(modules), "losses": losses}


def main():
    torch.set_num_threads(1)
    models.answer(train)


if __name__ == "__main__":
    main()
