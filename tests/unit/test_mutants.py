"""The mutants of a statement: every condition is found, and each takes out one thing."""

from pathlib import Path

import pytest

from longshore_lab.mutants.__main__ import accepted
from longshore_lab.mutants.conditions import changes, probed
from longshore_lab.mutants.planted import PLANTED, Planted
from longshore_lab.mutants.record import Measured, Record, named
from longshore_lab.mutants.statements import ENGINES, VERBS, functions, mutants, statements


def labels(sql: str) -> list[str]:
    return [one.label for one in changes(sql)]


def test_every_operand_of_a_where_is_taken_out_alone():
    assert labels("delete from t where a = 1 and b in (2, 3) and c between 4 and 5") == [
        "where a = 1 -> true",
        "where b in (2, 3) -> true",
        "where c between 4 and 5 -> true",
    ]


def test_what_is_taken_out_stays_in_the_text_for_its_parameters():
    (first, _) = changes("update t set x = 1 where token = ? and seq = ?")

    assert first.text == "update t set x = 1 where ((token = ?) or true) and seq = ?"


def test_the_sides_of_an_or_are_false_one_at_a_time():
    assert labels("select 1 from t where a = 1 and (b = 2 or c = 3 and d = 4)") == [
        "where a = 1 -> true",
        "where (b = 2 or c = 3 and d = 4) -> true",
        "where b = 2 -> false",
        "where c = 3 and d = 4 -> false",
        "where c = 3 -> true",
        "where d = 4 -> true",
    ]


def test_joins_filters_and_queries_inside_others_have_conditions_too():
    sql = """
        select count(*) filter (where x.a > 0) from t x -- where nothing = 'and'
          left join u on u.id = x.id and u.b = 'on where'
         where exists (select 1 from w where w.id = x.id)
         group by 1 having count(*) > 1
        on conflict (id) do nothing
    """

    assert labels(sql) == [
        "where x.a > 0 -> true",
        "on u.id = x.id -> true",
        "on u.b = 'on where' -> true",
        "where exists (select 1 from w where w.id = x.id) -> true",
        "where w.id = x.id -> true",
        "having count(*) > 1 -> true",
    ]


def test_orders_are_reversed_and_limits_raised():
    found = changes("select a from t order by b, lower(c) desc limit :limit")

    assert [one.label for one in found] == [
        "order by b -> reversed",
        "order by lower(c) desc -> reversed",
        "limit :limit -> more",
    ]
    assert [one.text.partition("order by ")[2] for one in found] == [
        "b desc, lower(c) desc limit :limit",
        "b, lower(c) limit :limit",
        "b, lower(c) desc limit (:limit) + 1000",
    ]


def test_a_guard_is_passed_always_or_never():
    body = """
        if v_last is null or p_number > v_last then
            raise exception 'no';
        elsif not found then
            return;
        end if;
        while v_left > 0 loop
            exit when v_done and not v_more;
        end loop;
    """

    assert labels(body) == [
        "if v_last is null or p_number > v_last -> true",
        "if v_last is null -> false",
        "if p_number > v_last -> false",
        "if v_last is null or p_number > v_last -> false",
        "elsif not found -> true",
        "elsif not found -> false",
        "while v_left > 0 -> false",
        "when v_done -> true",
        "when not v_more -> true",
        "when v_done and not v_more -> false",
    ]


def test_a_case_has_conditions_only_where_it_compares_no_value():
    assert labels("select case when a > 1 then 2 else 3 end, case b when 1 then 2 end") == [
        "when a > 1 -> true",
        "when a > 1 -> false",
    ]


def test_the_same_condition_twice_has_two_names():
    assert labels("select 1 from t where a = 1 union select 2 from u where a = 1") == [
        "where a = 1 -> true",
        "where a = 1 -> true (2)",
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_statement_that_is_named_exists(engine: str):
    named = {name for names in VERBS[engine].values() for name in names.split()}

    assert named - statements(engine).keys() == set()


@pytest.mark.parametrize("engine", ENGINES)
def test_every_mutant_has_a_name_of_its_own_and_changes_something(engine: str):
    found = mutants(engine)
    texts = statements(engine)

    assert len({one.key for one in found}) == len(found)
    assert [one.key for one in found if one.text == texts.get(one.statement)] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_every_mutant_that_is_accepted_exists_and_has_a_reason(engine: str):
    found = accepted(engine)

    assert found.keys() - {one.key for one in mutants(engine)} == set()
    assert all(reason.strip() for reason in found.values())


def test_a_function_is_taken_as_the_last_migration_has_it():
    first = """
create function longshore.one(p int) returns int language sql immutable
begin atomic
    select p;
end;
create function longshore.two() returns int language plpgsql as $$
begin
    return 2;
end
$$;
create function longshore.gone() returns int language plpgsql as $$ begin end $$;
"""
    second = """
drop function longshore.gone();
create or replace function longshore.two() returns int language plpgsql as $$
begin
    return 3;
end
$$;
"""

    found = functions([first, second])

    assert list(found) == ["one()", "two()"]
    assert found["one()"].startswith("create or replace function longshore.one(p int)")
    assert found["one()"].endswith("select p;\nend;")
    assert "return 3" in found["two()"]


def test_a_function_in_sql_has_mutants_as_one_in_plpgsql_has():
    found = {one.statement for one in mutants("postgres")}

    assert {"claim()", "state_of()"} <= found


@pytest.mark.parametrize("one", PLANTED, ids=lambda one: f"{one.engine}-{one.about}")
def test_every_planted_fault_has_its_place(one: Planted):
    assert one.old not in one.source() or one.old in one.new


def test_a_constraint_a_value_and_an_error_are_no_conditions():
    body = """
        insert into t values (1) on conflict on constraint t_pkey do nothing;
        case kind
        when 'once' then null;
        when 'twice' then null;
        end case;
    exception
        when lock_not_available then null;
        when sqlstate 'LS003' then null;
    """

    assert labels(body) == []


def test_each_condition_is_noted_once_wherever_it_stands():
    sql = "select 1 from t where a = 1 and (b = 2 or c = 3) order by d"

    text, found = probed(sql, "noted", first=7)

    assert text == (
        "select 1 from t where noted(7, (a = 1))"
        " and noted(8, ((noted(9, (b = 2)) or noted(10, (c = 3))))) order by d"
    )
    assert [(one.true, one.false) for one in found] == [
        (["where a = 1 -> true"], []),
        (["where (b = 2 or c = 3) -> true"], []),
        ([], ["where b = 2 -> false"]),
        ([], ["where c = 3 -> false"]),
    ]


def test_a_guard_shows_by_both_of_its_values():
    _, (found,) = probed("if a > 1 then b := 2; end if;", "noted")

    assert (found.true, found.false) == (["if a > 1 -> true"], ["if a > 1 -> false"])


def test_a_record_knows_what_was_killed_and_what_a_survivor_has_met(tmp_path: Path):
    path = tmp_path / "mutants.jsonl"
    first = Record(path, "now")
    first.add_test("t::a", Measured(0.5, frozenset({"claim()"}), frozenset({"11"})))
    first.add_mutant("claim(): x -> true", "11", "survived", "", {named("t::a")})
    first.add_mutant("claim(): y -> true", "22", "killed", "t::a", set())

    second = Record(path, "now")
    second.read()

    assert second.tests == first.tests
    assert second.ended == {"11": ("survived", ""), "22": ("killed", "t::a")}
    assert second.met["11"] == {named("t::a")}


def test_tests_that_ran_on_other_statements_are_not_known(tmp_path: Path):
    path = tmp_path / "mutants.jsonl"
    Record(path, "then").add_test("t::a", Measured(0.5, frozenset(), None))

    record = Record(path, "now")
    record.read()

    assert record.tests == {}
