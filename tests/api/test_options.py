"""Options that a fit does not have: what is said, and that the remedies work."""

from __future__ import annotations

import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.hyper_ways import OPTIONS
from lgmdsl.api.fit.options import FIT_OPTIONS, WRITTEN, FitOption

MODEL = lgm.loads(
    "lgm 1\nindex obs\ndata y[obs] : count\nhyper s : positive ~ pc_sd(u = 1, alpha = 0.01)\n"
    "latent b ~ normal(sd = s)\nobserve y ~ poisson(log_rate = b)\n"
)
DATA = {"y": [1, 3, 2]}


def refusal(options: dict[str, object], hyper: str = "auto") -> lgm.MethodError:
    with pytest.raises(lgm.MethodError) as caught:
        lgm.fit(MODEL, DATA, "laplace", hyper, options=options)
    assert caught.value.codes == ("E104",)
    return caught.value


@pytest.mark.parametrize("hyper", ["auto", "fixed", "map", "em", "integrate", "vb"])
def test_an_unknown_option_is_answered_with_all_that_there_are(hyper: str) -> None:
    (problem,) = refusal({"no_such_option": 1}, hyper).diagnostics
    shown = " ".join(problem.details)
    assert "correct_mean" in shown
    for option in FIT_OPTIONS:
        ways = OPTIONS.get(option.name)
        fits = ways is None or hyper == "auto" or hyper in ways
        assert (f" {option.name}" in shown.replace(",", "")) is (fits and not option.setting)


def test_a_name_of_other_software_or_of_another_method() -> None:
    (problem,) = refusal({"int.strategy": "ccd"}).diagnostics
    assert problem.help.startswith("`int.strategy` of R-INLA is `integration` here: options=")
    assert "--option integration=VALUE" in problem.on_command_line().help
    assert lgm.fit(MODEL, DATA, "laplace", options={"integration": "ccd"}).converged
    assert refusal({"damping": 0.5}).diagnostics[0].help == "it is an option of ep"
    assert refusal({"effrt": "low"}).diagnostics[0].help == "did you mean `effort`?"


@pytest.mark.parametrize("option", [o for o in FIT_OPTIONS if o.setting], ids=lambda o: o.name)
def test_a_setting_is_no_option(option: FitOption) -> None:
    for name in (option.name, option.name.replace("_", "-"), *WRITTEN.get(option.name, ())):
        (problem,) = refusal({name: 1}).diagnostics
        assert problem.help.startswith("it is a setting: ") and problem.help.endswith(
            ("=VALUE", '{"NAME": VALUE}', '{"NAME": KEY}')
        )
        assert "it is a setting: --" in problem.on_command_line().help


def test_settings_that_are_names() -> None:
    for name in ("method", "hyper", "bound"):
        (problem,) = refusal({name: "x"}).diagnostics
        assert problem.help == f'it is a setting: {name}="NAME"'


def test_comparisons_say_the_same() -> None:
    with pytest.raises(lgm.MethodError) as caught:
        lgm.compare(MODEL, DATA, ["laplace"], options={"laplace": {"int.strategy": "ccd"}})
    assert "`integration` here" in caught.value.diagnostics[0].help
