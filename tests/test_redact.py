"""What must never be stored is taken out, and what only looks alike is left."""

import pytest

from envkit import redact


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://ada:pw@host/simple", "https://host/simple"),
        ("https://token@host/x and http://a:b@c/d", "https://host/x and http://c/d"),
        ("https://host/t/tk-123/channel/noarch", "https://host/t/<hidden>/channel/noarch"),
        ("https://host/t/tk-123", "https://host/t/<hidden>"),
        ("https://host/t/${TOKEN}/channel", "https://host/t/${TOKEN}/channel"),
        ("https://${USER}:${PASSWORD}@host/x", "https://${USER}:${PASSWORD}@host/x"),
        ("https://host/x?access_token=abc&y=1", "https://host/x?access_token=<hidden>&y=1"),
        ("https://host/x?sig=abc", "https://host/x?sig=<hidden>"),
        ("git+ssh://git@host/repo.git", "git+ssh://host/repo.git"),
        ("https://host/a@b/c", "https://host/a@b/c"),
        ("pkg @ https://host/pkg.whl", "pkg @ https://host/pkg.whl"),
        ("/t/shirt is a path", "/t/shirt is a path"),
    ],
)
def test_credentials_leave_urls(text, clean):
    assert redact.url(text) == clean


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "PIP_PASSWORD", "GH_PAT", "API_KEY", "NETRC_AUTH"]
)
def test_names_that_sound_like_secrets_are_known(name):
    assert redact.secret_name(name)


@pytest.mark.parametrize(
    "name", ["OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PYTHONPATH", "MKL_CBWR", "LD_LIBRARY_PATH"]
)
def test_names_that_change_behaviour_are_no_secrets(name):
    assert not redact.secret_name(name)


def test_home_folders_become_a_tilde_and_longer_names_stay():
    assert redact.text("/home/ada/x:/home/adam/y", ["/home/ada"]) == "~/x:/home/adam/y"
    assert redact.text("at /home/ada", ["/home/ada"]) == "at ~"
