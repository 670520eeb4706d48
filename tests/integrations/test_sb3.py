"""``ParameterNoiseDDPG`` within Stable-Baselines3: its checks, callbacks, saving, several environments, warnings."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed")
pytest.importorskip("gymnasium", reason="Gymnasium is not installed")

import gymnasium
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

import vadam
from vadam.integrations.sb3 import ParameterNoiseDDPG

SMALL = {"policy_kwargs": {"net_arch": [16, 16]}, "buffer_size": 2000, "seed": 0, "device": "cpu"}


def small(env="Pendulum-v1", *args, **kwargs) -> ParameterNoiseDDPG:
    return ParameterNoiseDDPG("MlpPolicy", env, *args, **(SMALL | kwargs))


def weights(model: ParameterNoiseDDPG) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in model.policy.parameters()])


def test_three_lines(tmp_path: Path) -> None:
    model = ParameterNoiseDDPG("MlpPolicy", "Pendulum-v1", device="cpu")
    model.learn(80)
    action, _ = model.predict(np.zeros(3, dtype=np.float32))
    assert action.shape == (1,)
    assert [layer.out_features for layer in model.actor.mu if isinstance(layer, torch.nn.Linear)] == [400, 300, 1]
    group = model.actor.optimizer.param_groups[0]
    assert (group["lr"], group["prior_precision"], group["sampling_precision"], group["num_data"]) == (
        1e-4,
        1e-8,
        1e4,
        1,
    )


@pytest.mark.parametrize(
    ("optimizer", "arguments"),
    [
        (vadam.Vadam, None),
        (vadam.VadaGrad, {"init_precision": 1e4}),
        (vadam.Vprop, {"num_data": 1, "prior_precision": 1e-2, "init_precision": 1e4}),
        (vadam.VOGN, {"num_data": 1, "prior_precision": 1e-2, "init_precision": 1e4}),
        (vadam.IVON, {"num_data": 1e4, "prior_precision": 1.0, "lr": 1e-3}),
        (vadam.BBVI, {"num_data": 1, "prior_precision": 1e-2, "init_precision": 1e4}),
        (torch.optim.Adam, {"lr": 1e-4}),
        (torch.optim.SGD, {"lr": 1e-4}),
    ],
)
def test_any_optimizer(optimizer: type, arguments: dict | None) -> None:
    model = small("Pendulum-v1", optimizer, arguments)
    before = weights(model)
    model.learn(90)
    after = weights(model)
    assert torch.isfinite(after).all()
    assert not torch.equal(before, after)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="sample_every='minute' is not valid: choose one of 'step', 'episode'"):
        small(sample_every="minute")
    with pytest.raises(ValueError, match="policy_gradient='max'"):
        small(policy_gradient="max")
    with pytest.raises(ValueError, match="VON with these arguments evaluates the loss itself"):
        small("Pendulum-v1", vadam.VON, {"num_data": 1, "curvature": "score"})
    with pytest.raises(TypeError, match="num_data"):
        small("Pendulum-v1", vadam.Vprop)
    for wrong in (1e-3, "vadam", None):
        with pytest.raises(
            TypeError, match=r"actor_optimizer=.* is not valid: pass a class.*the critic's rate is learning_rate"
        ):
            small("Pendulum-v1", wrong)
    with pytest.raises(ValueError, match="samples=2 in actor_optimizer_kwargs is not valid"):
        small("Pendulum-v1", vadam.Vadam, {"samples": 2})
    for wrong in (1e-4, [("lr", 1e-4)], 0):
        with pytest.raises(
            TypeError, match=r"actor_optimizer_kwargs=.* is not valid: pass .* by name, such as \{'lr': 1e-4\}"
        ):
            small("Pendulum-v1", vadam.Vadam, wrong)
    with pytest.raises(
        ValueError, match=r"actor_optimizer=LBFGS is not valid: .* choose one whose step\(\) needs no closure"
    ):
        small("Pendulum-v1", torch.optim.LBFGS)


def test_what_is_left_out_of_vadams_arguments_is_the_papers() -> None:
    group = small("Pendulum-v1", vadam.Vadam, {"lr": 3e-4}).actor.optimizer.param_groups[0]
    assert (group["lr"], group["prior_precision"], group["sampling_precision"], group["num_data"]) == (
        3e-4,
        1e-8,
        1e4,
        1,
    )


def test_without_a_generator_the_optimizer_has_its_own() -> None:
    model = small("Pendulum-v1", vadam.Vadam, {"generator": None}, sample_every="episode")
    model.learn(70)
    assert model.actor.optimizer.generator is not None


def test_arguments_given_to_load_are_checked_and_go_before_those_that_were_saved(tmp_path: Path) -> None:
    model = small("Pendulum-v1", vadam.Vadam, {"sampling_precision": 100.0})
    model.learn(70)
    model.save(tmp_path / "model")
    group = ParameterNoiseDDPG.load(
        tmp_path / "model", actor_optimizer_kwargs={"lr": 3e-4}
    ).actor.optimizer.param_groups[0]
    assert (group["lr"], group["prior_precision"], group["sampling_precision"]) == (3e-4, 1e-8, 100.0)
    for wrong, error in (
        ({"sample_every": "minute"}, "sample_every='minute' is not valid"),
        ({"policy_gradient": "max"}, "policy_gradient='max' is not valid"),
        ({"actor_optimizer_kwargs": {"samples": 2}}, "samples=2 in actor_optimizer_kwargs"),
        ({"actor_optimizer_kwargs": {"lr": -1.0}}, r"lr must be in \[0, inf\), got -1.0"),
    ):
        with pytest.raises(ValueError, match=error):
            ParameterNoiseDDPG.load(tmp_path / "model", **wrong)


@pytest.mark.parametrize("step", [30, 200])
def test_a_checkpoint_keeps_the_noise_of_its_episode(step: int, tmp_path: Path) -> None:
    """Made by a callback between action and update, in the middle of an episode and at its end: loaded, it acts as the model goes on."""

    class Save(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps == step:
                self.model.save(tmp_path / "model")
            return True

    model = small(
        "Pendulum-v1", vadam.Vadam, {"sampling_precision": 1.0}, sample_every="episode", learning_starts=10**6
    )
    model.learn(step + 5, callback=Save())
    loaded = ParameterNoiseDDPG.load(tmp_path / "model", env=model.get_env(), force_reset=False, device="cpu")
    model._last_obs = loaded._last_obs = np.ones((1, 3), dtype=np.float32)
    np.testing.assert_array_equal(model._sample_action(0)[0], loaded._sample_action(0)[0])


def test_callbacks_of_every_kind_are_called() -> None:
    """An object, several, a function; the one that notices the ends of episodes is put before them."""

    class Count(BaseCallback):
        def _on_step(self) -> bool:
            return True

    one, two, seen = Count(), Count(), []
    for callback in (one, [one, two], lambda known, _: bool(seen.append(known["dones"].shape)) or True, None):
        small().learn(5, callback=callback)
    assert (one.n_calls, two.n_calls, seen) == (10, 5, [(1,)] * 5)


@pytest.mark.filterwarnings("ignore:.*recommend you to use a symmetric and normalized Box action space.*")
@pytest.mark.parametrize("name", ["Pendulum-v1", "HalfCheetah-v5"])
def test_the_environments_pass_sb3s_check(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if name == "HalfCheetah-v5":
        pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    model = small(name)
    check_env(model.get_env().envs[0], skip_render_check=True)
    model.get_env().close()
    assert not list(tmp_path.iterdir())


def test_saved_loaded_and_continued(tmp_path: Path) -> None:
    """With its replay buffer and the same random state a loaded model goes on as the saved one does, bit for bit."""
    model = small()
    model.learn(100)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    loaded = ParameterNoiseDDPG.load(tmp_path / "model", env=gymnasium.make("Pendulum-v1"), device="cpu")
    loaded.load_replay_buffer(tmp_path / "buffer")
    assert torch.equal(weights(model), weights(loaded))
    for one in (model, loaded):
        one.set_random_seed(7)
        one.get_env().seed(7)
        one.set_env(one.get_env())
        one.learn(60, reset_num_timesteps=False)
        assert one.num_timesteps == 160
    assert torch.equal(weights(model), weights(loaded))
    ours, theirs = (m.actor.optimizer.posterior().precision for m in (model, loaded))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert loaded.sample_every == "step"
    assert loaded.actor_optimizer is vadam.Vadam


def test_a_seed_is_that_of_the_samples_too() -> None:
    """A seed also fixes the weight samples, whatever was drawn before it."""
    arguments = {"sampling_precision": 1.0}
    fresh, older = small("Pendulum-v1", vadam.Vadam, arguments), small("Pendulum-v1", vadam.Vadam, arguments)
    older.learn(30)
    fresh._last_obs = older._last_obs = np.ones((1, 3), dtype=np.float32)
    for model in (fresh, older):
        model.set_random_seed(5)
    np.testing.assert_array_equal(fresh._sample_action(0)[0], older._sample_action(0)[0])


def test_after_learning_and_loading_the_network_is_the_means(tmp_path: Path) -> None:
    model = small("Pendulum-v1", vadam.Vadam, {"sampling_precision": 1.0})
    model.learn(70)
    model.save(tmp_path / "model")
    x = torch.ones(1, 3)
    for one in (model, ParameterNoiseDDPG.load(tmp_path / "model", device="cpu")):
        before = weights(one)
        with torch.no_grad():
            called = one.policy.unscale_action(one.actor(x).numpy()), one.policy.unscale_action(one.policy(x).numpy())
        assert torch.equal(weights(one), before)
        for action in called:
            np.testing.assert_array_equal(action, one.predict(x.numpy())[0])


def test_actions_with_several_axes() -> None:
    class Grid(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (3,))
        action_space = gymnasium.spaces.Box(-3, 3, (2, 3))

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.observation_space.sample(), {}

        def step(self, action):
            assert action.shape == (2, 3)
            return self.observation_space.sample(), float(action.sum()), False, False, {}

    model = small(Grid())
    model.learn(70)
    assert model.predict(np.zeros(3, dtype=np.float32))[0].shape == (2, 3)


def test_a_subclass_of_vadam_has_the_papers_settings() -> None:
    class Mine(vadam.Vadam):
        pass

    assert small("Pendulum-v1", Mine).actor.optimizer.param_groups[0]["sampling_precision"] == 1e4


def test_several_environments_and_normalised_observations() -> None:
    env = VecNormalize(make_vec_env("Pendulum-v1", n_envs=3, seed=0))
    model = small(env, learning_starts=30, train_freq=2, gradient_steps=2)
    model.learn(120)
    assert model.num_timesteps == 120
    assert model._n_updates > 20
    assert np.isfinite(evaluate_policy(model, env, n_eval_episodes=1, warn=False)[0])


def test_evaluation_between_acting_and_learning_uses_the_mean() -> None:
    """EvalCallback comes between the action and the update, when the actor holds the sample."""
    seen = {}

    class Look(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps == 80:
                x = np.ones(3, dtype=np.float32)
                seen["predicted"] = self.model.predict(x, deterministic=True)[0]
                seen["policy"] = self.model.policy.predict(x)[0]
                seen["saved"] = {k: v.clone() for k, v in self.model.policy.state_dict().items()}
            return self.num_timesteps < 80

    arguments = {"lr": 1e-4, "num_data": 1, "prior_precision": 1e-8, "sampling_precision": 1.0}
    model = small("Pendulum-v1", vadam.Vadam, arguments)
    model.learn(1000, callback=Look())
    assert model.num_timesteps == 80
    x = np.ones(3, dtype=np.float32)
    # The model holds the mean: the callback stopped before the update.
    np.testing.assert_array_equal(seen["predicted"], model.predict(x)[0])
    np.testing.assert_array_equal(seen["policy"], seen["predicted"])
    assert all(torch.equal(value, model.policy.state_dict()[name]) for name, value in seen["saved"].items())


def test_looking_on_does_not_change_the_course() -> None:
    """The sample that acted comes back for its gradient after an evaluation: with and without one the weights are the same."""

    def trained(every: int | None) -> torch.Tensor:
        model = small()
        env = gymnasium.make("Pendulum-v1")
        looks = None if every is None else EvalCallback(env, eval_freq=every, n_eval_episodes=1, verbose=0, warn=False)
        model.learn(100, callback=looks)
        return weights(model)

    assert torch.equal(trained(None), trained(7))


def test_an_interrupted_run_leaves_the_mean() -> None:
    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps == 70:
                raise KeyboardInterrupt
            return True

    arguments = {"lr": 1e-4, "num_data": 1, "prior_precision": 1e-8, "sampling_precision": 1.0}
    model = small("Pendulum-v1", vadam.Vadam, arguments)
    with pytest.raises(KeyboardInterrupt):
        model.learn(100, callback=Stop())
    calm = small("Pendulum-v1", vadam.Vadam, arguments)
    calm.learn(69)
    assert torch.equal(weights(model), weights(calm))


@pytest.mark.parametrize("environment", ['"HalfCheetah-v5"', 'gymnasium.make("HalfCheetah-v5")'])
def test_quiet_in_a_folder_of_its_own(environment: str, tmp_path: Path) -> None:
    """In a fresh process, whoever makes the environment: nothing is printed, nothing is left behind, no warning is raised."""
    pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    program = f"""
import gymnasium, io, torch
torch.set_num_threads(1)
from vadam.integrations.sb3 import ParameterNoiseDDPG
model = ParameterNoiseDDPG("MlpPolicy", {environment}, policy_kwargs={{"net_arch": [8, 8]}}, device="cpu", buffer_size=1000)
model.learn(70)
file = io.BytesIO()
model.save(file)
file.seek(0)
ParameterNoiseDDPG.load(file, env=gymnasium.make("HalfCheetah-v5"), device="cpu").learn(5)
"""
    done = _in_a_process(program, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())


def test_an_existing_mujoco_handler_stays(tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    program = """
import gymnasium, mujoco
mujoco.set_mju_user_warning(lambda message: print("heard"))
import vadam.integrations.sb3
gymnasium.make("HalfCheetah-v5")
"""
    done = _in_a_process(program, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "heard\n", "")


def _in_a_process(program: str, folder: Path) -> subprocess.CompletedProcess:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_an_unstable_simulation_leaves_no_log_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    monkeypatch.chdir(tmp_path)
    model = small("HalfCheetah-v5")
    model.learn(1)
    model.get_env().envs[0].unwrapped.data.qvel[:] = 1e11
    with pytest.warns(RuntimeWarning, match="MuJoCo: .*unstable"):
        model.learn(2, reset_num_timesteps=False)
    assert not list(tmp_path.iterdir())


def test_other_warnings_of_mujoco_are_heard() -> None:
    mujoco = pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    with pytest.warns(RuntimeWarning, match="MuJoCo: something else"):
        mujoco.get_mju_user_warning()("something else")
