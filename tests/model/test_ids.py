"""Ids are in the order of time and know their age."""

from __future__ import annotations

import time
import uuid

from palaver.model.ids import age_of, new_id


def test_an_id_knows_its_age_and_other_ids_do_not():
    began = time.time()
    age = age_of(new_id())
    assert age is not None
    assert -0.001 <= age <= time.time() - began + 0.001
    assert age_of(str(uuid.UUID(int=0xABCDEF << 100))) is None
    assert age_of("made up") is None
    assert age_of("") is None
