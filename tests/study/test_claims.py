"""Claims: one owner at a time, the dead lose theirs, the living never."""

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rmixup import owner as module
from rmixup.owner import me, token_is_dead
from rmixup.study.claims import Claims, _read

STACK = "ab" * 12


def _claim_of(owner: dict[str, Any], claims: Claims, generation: int = 0) -> Path:
    """A claim that another process left."""
    place = claims.folder / f"{STACK}.{generation:04d}"
    place.mkdir(parents=True)
    (place / "owner.json").write_text(json.dumps({"since": 1.0, "cells": ["k"], **owner}))
    return place


def _dead_owner() -> dict[str, Any]:
    """A process of this host that has ended."""
    code = "import json; from dataclasses import asdict; from rmixup.owner import me; "
    code += "print(json.dumps({**asdict(me()), 'token': me().token}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def test_only_one_of_two_gets_a_stack_and_the_next_after_it_is_given_back(tmp_path: Path) -> None:
    one, two = Claims(tmp_path / "claims"), Claims(tmp_path / "claims")
    assert one.take(STACK, ["k"])
    assert not two.take(STACK, ["k"])
    (claim,) = two.live()
    assert (claim.owner, claim.stack, claim.cells) == (me(), STACK, ("k",))
    one.release(STACK)
    assert two.live() == []
    assert two.take(STACK, ["k"])
    two.release_all()
    assert list(two.folder.iterdir()) == []


def test_of_many_at_once_exactly_one_gets_it(tmp_path: Path) -> None:
    runners = [Claims(tmp_path / "claims") for _ in range(8)]
    gate, got = threading.Barrier(8), []

    def take(claims: Claims) -> None:
        gate.wait()
        got.append(claims.take(STACK, []))

    threads = [threading.Thread(target=take, args=(claims,)) for claims in runners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [False] * 7 + [True]


def test_the_claim_of_a_dead_process_here_is_taken_over_at_once(tmp_path: Path) -> None:
    claims = Claims(tmp_path / "claims")
    _claim_of(_dead_owner(), claims)
    assert claims.live() == []
    assert claims.take(STACK, [])
    assert len(claims.live()) == 1
    assert not Claims(claims.folder).take(STACK, [])
    claims.release(STACK)
    assert list(claims.folder.iterdir()) == []


def test_a_claim_from_elsewhere_counts_while_its_heart_beats(tmp_path: Path) -> None:
    claims = Claims(tmp_path / "claims", stale_after=60)
    place = _claim_of({"host": "elsewhere", "pid": 1, "born": "5", "token": "00000000-1-5"}, claims)
    assert not claims.take(STACK, [])
    assert claims.live()[0].owner.host == "elsewhere"
    os.utime(place / "owner.json", (time.time() - 61,) * 2)
    assert claims.take(STACK, [])


def test_a_claim_without_a_readable_owner_holds_nobody_up(tmp_path: Path) -> None:
    claims = Claims(tmp_path / "claims")
    place = _claim_of({}, claims)
    (place / "owner.json").write_text("{torn")
    assert claims.live() == []
    assert _read(place) is None
    assert claims.take(STACK, [])


def test_a_heartbeat_keeps_the_claim_fresh(tmp_path: Path) -> None:
    claims = Claims(tmp_path / "claims", stale_after=0.3)
    claims.take(STACK, [])
    (owner,) = claims.folder.glob("*/owner.json")
    os.utime(owner, (1.0, 1.0))
    with claims.beating():
        deadline = time.monotonic() + 5
        while owner.stat().st_mtime < 100 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert time.time() - owner.stat().st_mtime < 10


def test_a_number_that_was_given_to_another_process_is_not_the_owner() -> None:
    host, pid, born = me().token.split("-")
    assert not token_is_dead(me().token, age=1e9)
    assert token_is_dead(f"{host}-{pid}-{int(born) + 1}", age=0)
    assert token_is_dead("garbage", age=1e9)
    assert not token_is_dead("garbage", age=0)


def test_a_zombie_is_dead() -> None:
    process = multiprocessing.get_context("spawn").Process(target=int)
    process.start()
    deadline = time.monotonic() + 30
    while module._born(process.pid or 0) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert module._born(process.pid or 0) is None
    process.join()


def test_where_the_system_tells_no_births_a_signal_tells_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.Path, "exists", lambda self: False)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    assert module._born(os.getpid()) == "0"
    assert module._born(1) == "0"
    assert module._born(dead.pid) is None


def test_where_there_is_no_proc_the_host_is_told_by_name_and_card(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: Path) -> str:
        raise FileNotFoundError(self)

    monkeypatch.setattr(module.Path, "read_text", missing)
    assert module._host.__wrapped__().startswith(__import__("socket").gethostname())
