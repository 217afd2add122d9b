"""BLAS is kept to one thread for small products, and set back, whatever Python thread comes last."""

from __future__ import annotations

import threading

import pytest

import tapegrad as tg
from tapegrad import blas


def test_set_back_by_another_thread_than_the_first():
    library = blas._library()
    if library is None or library.get_num_threads() < 2:
        pytest.skip("BLAS has one thread here")
    before = library.get_num_threads()
    inside, leave = threading.Event(), threading.Event()

    def other():
        with blas._one_thread:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with blas._one_thread:
        thread.start()
        inside.wait()
        assert library.get_num_threads() == 1
    assert library.get_num_threads() == 1, "the other thread is still inside"
    leave.set()
    thread.join()
    assert library.get_num_threads() == before


def test_a_thread_that_is_not_the_first_one_has_its_way():
    library = blas._library()
    if library is None or library.get_num_threads() < 2:
        pytest.skip("BLAS has one thread here")
    seen = []

    def other():
        with blas._one_thread:
            seen.append(library.get_num_threads())

    with blas._one_thread:
        pass  # this thread was the first
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [1]


def test_a_thread_may_set_the_number_after_another_one_did():
    library = blas._library()
    if library is None or library.get_num_threads() < 2:
        pytest.skip("BLAS has one thread here")
    before = tg.get_num_threads()
    tg.set_num_threads(2)
    try:
        thread = threading.Thread(target=tg.set_num_threads, args=(1,))
        thread.start()
        thread.join()
        assert library.get_num_threads() == 1
    finally:
        tg.set_num_threads(before)
