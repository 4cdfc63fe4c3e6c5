import pytest

from statelights import Clock, Definition, DefinitionError, Machine


def door():
    definition = Definition()
    definition.state("closed")
    definition.state("open")
    definition.on("push", "closed", "open", guard=lambda context: context.get("unlocked"))
    definition.on("pull", "open", "closed")
    return definition


def test_events_move_the_machine():
    machine = Machine(door(), Clock())
    assert machine.send("push", unlocked=True)
    assert machine.state == "open"
    assert machine.send("pull")
    assert machine.log == ["closed", "open", "closed"]


def test_guard_holds_the_machine():
    machine = Machine(door(), Clock())
    assert not machine.send("push")
    assert machine.state == "closed"


def test_unknown_event_is_ignored():
    assert not Machine(door(), Clock()).send("knock")


def test_actions_run_in_order():
    seen = []
    definition = Definition()
    definition.state("a", on_exit=lambda context: seen.append("leave a"))
    definition.state("b", on_entry=lambda context: seen.append("enter b"))
    definition.on("go", "a", "b", action=lambda context: seen.append("go"))
    Machine(definition, Clock()).send("go")
    assert seen == ["leave a", "go", "enter b"]


def test_inner_state_is_asked_first():
    definition = Definition()
    definition.state("outer", initial="inner")
    definition.state("inner", parent="outer")
    definition.state("x")
    definition.state("y")
    definition.on("go", "outer", "x")
    definition.on("go", "inner", "y", guard=lambda context: context.get("deep"))
    machine = Machine(definition, Clock())
    assert machine.is_in("outer") and machine.state == "inner"
    machine.send("go")
    assert machine.state == "x"
    machine = Machine(definition, Clock())
    machine.send("go", deep=True)
    assert machine.state == "y"


def test_definition_errors():
    definition = door()
    with pytest.raises(DefinitionError, match="twice"):
        definition.state("open")
    with pytest.raises(DefinitionError, match="unknown parent"):
        definition.state("ajar", parent="half")
    definition.on("kick", "open", "broken")
    with pytest.raises(DefinitionError, match="unknown state broken"):
        Machine(definition, Clock())


def test_timers_run_in_the_order_they_are_due():
    clock, seen = Clock(), []
    clock.start(5, "x", lambda: seen.append(("b", clock.now)))
    clock.start(1, "x", lambda: seen.append(("a", clock.now)))
    clock.start(9, "y", lambda: seen.append(("c", clock.now)))
    clock.advance(6)
    assert seen == [("a", 1), ("b", 5)]
    assert [timer.due for timer in clock.pending()] == [9]
