"""Algorithms 1 and 2 of the paper's App. K, step by step in float64, against ``ParameterNoiseDDPG``."""

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed")
pytest.importorskip("gymnasium", reason="Gymnasium is not installed")

from stable_baselines3.common.callbacks import StopTrainingOnMaxEpisodes
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.torch_layers import FlattenExtractor

import vadam
from vadam.integrations.sb3 import ParameterNoiseDDPG

GAMMA, TAU, KAPPA = 0.99, 0.1, 1e-3
VADAM = {
    "lr": 1e-2, "betas": (0.9, 0.999), "num_data": 1, "prior_precision": 1e-8, "sampling_precision": 1e2,
}  # fmt: skip
VADAGRAD = {"lr": 1e-2, "beta": 0.01, "init_precision": 1e2}


class Double(FlattenExtractor):
    def forward(self, observations: Tensor) -> Tensor:
        return super().forward(observations).double()


def model_in_float64(optimizer: type = vadam.Vadam, arguments: dict | None = None, **others) -> ParameterNoiseDDPG:
    settings = {"learning_starts": 20, "batch_size": 8, "tau": TAU, "seed": 0, "device": "cpu", "buffer_size": 1000}
    model = ParameterNoiseDDPG(
        "MlpPolicy",
        "Pendulum-v1",
        optimizer,
        VADAM if arguments is None else arguments,
        gamma=GAMMA,
        policy_kwargs={"net_arch": [6, 5], "features_extractor_class": Double},
        **(settings | {"learning_rate": KAPPA} | others),
    )
    model.policy.double()
    return model


class Watched:
    """Record the actor's weights whenever it is used, and the minibatches that are drawn."""

    def __init__(self, model: ParameterNoiseDDPG) -> None:
        self.acting: list[list[Tensor]] = []
        self.learning: list[list[Tensor]] = []
        self.batches: list = []
        self.model = model
        model.actor.mu.register_forward_pre_hook(self._used)
        sample = model.replay_buffer.sample
        model.replay_buffer.sample = lambda *args, **kwargs: self._drawn(sample(*args, **kwargs))

    def _used(self, *_) -> None:
        weights = [p.detach().clone() for p in self.model.actor.parameters()]
        (self.learning if torch.is_grad_enabled() else self.acting).append(weights)

    def _drawn(self, batch):
        self.batches.append(batch)
        return batch


def copies(module: torch.nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in module.parameters()]


def network(weights: list[Tensor], x: Tensor) -> Tensor:
    """Compute x → relu → relu → linear by hand."""
    w1, b1, w2, b2, w3, b3 = weights
    return (((x @ w1.T + b1).relu() @ w2.T + b2).relu()) @ w3.T + b3


def by_hand(batch, mu, omega, mu_target, omega_target, theta):
    """Compute lines 5 to 7: the new ω by torch's Adam, and the policy gradient at the weights that acted."""
    s, a, r = batch.observations.double(), batch.actions.double(), batch.rewards.double()
    s_next, goes_on = batch.next_observations.double(), 1 - batch.dones.double()
    a_next = network(mu_target, s_next).tanh()
    target = r + goes_on * GAMMA * network(omega_target, torch.cat([s_next, a_next], 1))
    td = target - network(omega, torch.cat([s, a], 1))
    grads_omega = torch.autograd.grad(td.square().mean(), omega)
    theta = [w.clone().requires_grad_() for w in theta]

    def policy_gradient(new_omega):
        actions = network(theta, s).tanh()
        return torch.autograd.grad(-network(new_omega, torch.cat([s, actions], 1)).sum() / len(s), theta)

    return grads_omega, policy_gradient


@pytest.mark.parametrize("name", ["Algorithm 1, VadaGrad", "Algorithm 2, Vadam"])
def test_two_steps_by_hand(name: str) -> None:
    is_vadam = "Vadam" in name
    model = model_in_float64(*((vadam.Vadam, VADAM) if is_vadam else (vadam.VadaGrad, VADAGRAD)))
    model.learn(20)  # acts, does not learn yet
    watched = Watched(model)
    mu, omega = copies(model.actor), [w.requires_grad_() for w in copies(model.critic)]
    mu_target, omega_target = copies(model.actor_target), copies(model.critic_target)
    adam = torch.optim.Adam(omega, lr=KAPPA)
    m = [torch.zeros_like(w) for w in mu]
    s = [torch.zeros_like(w) + (0 if is_vadam else VADAGRAD["init_precision"]) for w in mu]
    for t in (1, 2):
        model.learn(1, reset_num_timesteps=False)
        theta = watched.acting[-1]
        grads_omega, policy_gradient = by_hand(watched.batches[-1], mu, omega, mu_target, omega_target, theta)
        for w, g in zip(omega, grads_omega, strict=True):
            w.grad = g
        adam.step()
        gradient = policy_gradient([w.detach() for w in omega])
        for i, g in enumerate(gradient):
            if is_vadam:
                lam, (g1, g2) = VADAM["prior_precision"], VADAM["betas"]
                m[i] = g1 * m[i] + (1 - g1) * (g + lam * mu[i])
                s[i] = g2 * s[i] + (1 - g2) * g**2
                mu[i] = mu[i] - VADAM["lr"] * (m[i] / (1 - g1**t)) / ((s[i] / (1 - g2**t)).sqrt() + lam)
            else:
                s[i] = s[i] + (1 - 0.99) * g**2
                mu[i] = mu[i] - VADAGRAD["lr"] * g / s[i].sqrt()
        omega_target = [(1 - TAU) * old + TAU * new.detach() for old, new in zip(omega_target, omega, strict=True)]
        mu_target = [(1 - TAU) * old + TAU * new for old, new in zip(mu_target, mu, strict=True)]
        for ours, theirs in (
            (omega, model.critic),
            (mu, model.actor),
            (omega_target, model.critic_target),
            (mu_target, model.actor_target),
        ):
            torch.testing.assert_close([w.detach() for w in ours], copies(theirs), rtol=1e-9, atol=1e-11)
    precision = torch.cat([p.flatten() for p in model.actor.optimizer.posterior().precision.values()])
    expected = torch.cat([x.flatten() for x in s]) + (VADAM["prior_precision"] if is_vadam else 0)
    torch.testing.assert_close(precision, expected, rtol=1e-9, atol=1e-14)


def test_the_weights_that_act_are_those_of_the_gradient_and_differ_from_step_to_step() -> None:
    model = model_in_float64()
    model.learn(20)
    watched = Watched(model)
    model.learn(5, reset_num_timesteps=False)
    assert len(watched.acting) == len(watched.learning) == 5
    for acted, learned in zip(watched.acting, watched.learning, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(acted, learned, strict=True))
    assert all(not torch.equal(a[0], b[0]) for a, b in zip(watched.acting, watched.acting[1:], strict=False))


def test_sampled_with_the_precision_of_line_3() -> None:
    """ε = (θ − μ) √(s + λ + c) over 400 draws of all weights: mean 0 and variance 1 within five standard errors."""
    model = model_in_float64()
    model.learn(40)
    model.learning_starts = 10**6
    watched = Watched(model)
    mu = torch.cat([w.flatten() for w in copies(model.actor)])
    precision = torch.cat([p.flatten() for p in model.actor.optimizer.posterior().precision.values()])
    c = float(precision.mean())  # so that s counts beside it
    model.actor.optimizer.param_groups[0]["sampling_precision"] = c
    assert float(precision.max()) > c > VADAM["prior_precision"]
    model.learn(400, reset_num_timesteps=False)
    theta = torch.stack([torch.cat([w.flatten() for w in weights]) for weights in watched.acting])
    eps = ((theta - mu) * (precision + c).sqrt()).flatten()
    n = eps.numel()
    assert n > 20_000
    assert abs(float(eps.mean())) < 5 / n**0.5
    assert abs(float(eps.var()) - 1) < 5 * (2 / n) ** 0.5
    assert torch.equal(mu, torch.cat([w.flatten() for w in copies(model.actor)]))


def test_one_sample_an_episode_keeps_its_noise() -> None:
    """Episodes of Pendulum have 200 steps: the deviation, in units of σ, changes with the episode only."""
    model = model_in_float64(sample_every="episode", learning_starts=10**6)
    watched = Watched(model)
    model.learn(401)
    deviations = [weights[0] for weights in watched.acting]
    assert all(torch.equal(deviations[0], d) for d in deviations[:200])
    assert not torch.equal(deviations[199], deviations[200])
    assert all(torch.equal(deviations[200], d) for d in deviations[200:400])
    assert not torch.equal(deviations[399], deviations[400])


def test_a_reset_begins_an_episode() -> None:
    """``learn`` resets the environment, and with ``reset_num_timesteps=False`` it goes on where it was."""
    model = model_in_float64(sample_every="episode", learning_starts=10**6)
    watched = Watched(model)
    for reset in (True, False, True):
        model.learn(20, reset_num_timesteps=reset)
    deviations = [weights[0] for weights in watched.acting]
    assert all(torch.equal(deviations[0], d) for d in deviations[:40])
    assert not torch.equal(deviations[39], deviations[40])
    assert all(torch.equal(deviations[40], d) for d in deviations[40:])


def test_an_episode_at_whose_end_a_callback_stops_has_ended() -> None:
    """SB3 leaves before it stores the last transition; what comes after it is another episode all the same."""
    model = model_in_float64(sample_every="episode", learning_starts=10**6)
    watched = Watched(model)
    model.learn(1000, callback=StopTrainingOnMaxEpisodes(max_episodes=1))
    model.learn(20, reset_num_timesteps=False)
    deviations = [weights[0] for weights in watched.acting]
    assert all(torch.equal(deviations[0], d) for d in deviations[:200])
    assert not torch.equal(deviations[199], deviations[200])
    assert all(torch.equal(deviations[200], d) for d in deviations[200:])


def test_a_seed_is_that_of_the_noise_from_then_on() -> None:
    """A seed fixes the noise also in the middle of an episode that keeps its noise."""
    model = model_in_float64(sample_every="episode", learning_starts=10**6)
    watched = Watched(model)
    model.learn(10)
    for seed in (7, 8, 7):
        model.set_random_seed(seed)
        model.learn(10, reset_num_timesteps=False)
    before, seven, eight, again = ([weights[0] for weights in watched.acting[k : k + 10]] for k in (0, 10, 20, 30))
    assert all(torch.equal(seven[0], d) for d in [*seven, *again])
    assert not torch.equal(before[0], seven[0])
    assert not torch.equal(seven[0], eight[0])


def test_updates_after_the_end_of_an_episode_take_its_noise() -> None:
    """Several updates follow every time step: the noise changes with the first action of the next episode, not before."""
    model = model_in_float64(sample_every="episode", gradient_steps=3, learning_starts=195)
    watched = Watched(model)
    model.learn(201)
    mu, sigma = copies(model.actor_target)[0], 1e-1  # of c = 100; what is learned in six steps is small beside it
    noise = [(weights[0] - mu) / sigma for weights in (*watched.acting, *watched.learning)]
    acting, learning = noise[:201], noise[201:]
    last, next_one = learning[-6:-3], learning[-3:]
    torch.testing.assert_close(torch.stack(last), acting[199].expand(3, *mu.shape), atol=0.5, rtol=0)
    torch.testing.assert_close(torch.stack(next_one), acting[200].expand(3, *mu.shape), atol=0.5, rtol=0)
    assert float((acting[199] - acting[200]).abs().max()) > 1.5


def test_one_sample_an_episode_follows_the_mean() -> None:
    model = model_in_float64(sample_every="episode")
    model.learn(20)
    watched = Watched(model)
    noise = []
    for _ in range(3):
        mu, sigma = copies(model.actor)[0], next(iter(model.actor.optimizer.posterior().precision.values())) + 1e2
        model.set_env(model.get_env(), force_reset=False)
        model.learn(1, reset_num_timesteps=False)
        noise.append((watched.acting[-1][0] - mu) * sigma.sqrt())
    torch.testing.assert_close(noise[0], noise[1], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(noise[0], noise[2], rtol=1e-9, atol=1e-9)


def test_sum_is_the_authors_policy_gradient() -> None:
    """With SGD the actor's first move is M times as large: everything before it is the same."""
    moves = {}
    for kind in ("mean", "sum"):
        model = model_in_float64(torch.optim.SGD, {"lr": 1e-3}, policy_gradient=kind)
        model.learn(20)
        before = copies(model.actor)
        model.learn(1, reset_num_timesteps=False)
        moves[kind] = torch.cat([(a - b).flatten() for a, b in zip(copies(model.actor), before, strict=True)])
    torch.testing.assert_close(moves["sum"], 8 * moves["mean"], rtol=1e-6, atol=1e-15)
    assert float(moves["mean"].abs().max()) > 0


@pytest.mark.parametrize("n_steps", [1, 3])
def test_with_torchs_adam_it_is_sb3s_ddpg(n_steps: int) -> None:
    """Without sampling the class is Stable-Baselines3's own DDPG: the same weights after 30 updates of both, ends of episodes included."""
    from stable_baselines3 import DDPG

    def trained(model) -> list[np.ndarray]:
        rng = np.random.RandomState(0)
        model.replay_buffer.sample = _sampling_with(model.replay_buffer, rng)
        model.train(gradient_steps=30, batch_size=8)
        return [p.detach().numpy().copy() for p in model.policy.parameters()]

    common = {
        "learning_starts": 20,
        "batch_size": 8,
        "tau": TAU,
        "gamma": GAMMA,
        "n_steps": n_steps,
        "seed": 0,
        "device": "cpu",
    }
    networks = {"net_arch": [6, 5], "optimizer_kwargs": {}, "features_extractor_class": Double}
    ours = lambda: ParameterNoiseDDPG(  # noqa: E731
        "MlpPolicy", "Pendulum-v1", torch.optim.Adam, {"lr": KAPPA}, policy_kwargs=networks, **common
    )
    theirs = lambda: DDPG("MlpPolicy", "Pendulum-v1", KAPPA, policy_kwargs=networks, **common)  # noqa: E731

    def acted(make):
        model = make()
        model.policy.double()
        return model.learn(20)

    filled = acted(ours)
    filled.replay_buffer.dones[[4, 11, 12]] = 1

    def with_the_same_past(make):
        model = acted(make)
        for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
            getattr(model.replay_buffer, name)[:20] = getattr(filled.replay_buffer, name)[:20]
        model.policy.load_state_dict(filled.policy.state_dict())
        return model

    a, b = (trained(with_the_same_past(make)) for make in (ours, theirs))
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


def _sampling_with(buffer, rng):
    return lambda size, env=None: buffer._get_samples(rng.randint(0, 20, size=size), env=env)


@pytest.mark.parametrize("noisy", [False, True])
def test_what_acts_is_the_policys_action_in_the_units_of_the_environment(noisy: bool) -> None:
    """Pendulum's torque goes from −2 to 2; the buffer keeps it in [−1, 1], with the noise that is added to it, cut off there."""
    noise = np.array([0.75]) if noisy else None
    model = model_in_float64(torch.optim.SGD, {"lr": 1e-3}, action_noise=None if noise is None else Constant(noise))
    sent, step = [], model.env.step_async
    model.env.step_async = lambda actions: (sent.append(actions.copy()), step(actions))[1]
    model.learn(10)
    for k, action in enumerate(sent):
        state = torch.from_numpy(model.replay_buffer.observations[k]).double()
        wanted = network(copies(model.actor), state).tanh().numpy() + (0.75 if noisy else 0.0)
        np.testing.assert_allclose(model.replay_buffer.actions[k], np.clip(wanted, -1, 1), rtol=1e-5)
        np.testing.assert_allclose(action, 2 * model.replay_buffer.actions[k], rtol=1e-5)


class Constant(ActionNoise):
    def __init__(self, value: np.ndarray) -> None:
        super().__init__()
        self.value = value

    def __call__(self) -> np.ndarray:
        return self.value


def test_the_critics_rate_follows_its_schedule() -> None:
    model = model_in_float64(learning_rate=lambda left: KAPPA * (1 + left))
    model.learn(40)
    assert model.critic.optimizer.param_groups[0]["lr"] == pytest.approx(
        KAPPA * (1 + model._current_progress_remaining)
    )
    assert model.critic.optimizer.param_groups[0]["lr"] < 1.1 * KAPPA


def test_losses_are_means_over_the_updates() -> None:
    model = model_in_float64()
    model.learn(20)
    losses, update = [], model.update_critic
    model.update_critic = lambda batch: losses.append(update(batch)) or losses[-1]
    model.train(gradient_steps=4, batch_size=8)
    assert len(losses) == 4
    assert model.logger.name_to_value["train/critic_loss"] == pytest.approx(float(torch.stack(losses).mean()))
    before = model._n_updates
    model.train(gradient_steps=0)
    assert model._n_updates == before
