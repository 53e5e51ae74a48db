"""The simulator, its policies, what agents decide and how they learn. Each package uses only those above it.

    switches, jobs, setup   the input of one simulation: semantics, jobs, starting state
    metrics, windows        metrics of a schedule; parts of a trace
    predict/                run times predicted at submit: history, trees, training, evaluation
    policies/               which waiting job comes first: names, formulas, your own
    engine/                 compiled, arrays only: events, the scheduling pass, backfilling, capacities
    simulate, runs          a trace in, a schedule out; many of them on every core
    snapshot                a machine at one moment: running and waiting jobs, and a simulation from there
    hosts/                  machines made of hosts, and the allocators that choose among them
    energy/                 power and energy of a schedule (to come)
    tasks/                  what an agent decides and sees: one folder per task, episodes, Gymnasium
    agents/                 how an agent learns, is saved, plays and is evaluated
    orders/                 the best order of a fixed queue (to come)
    analysis/               check, compare, sweep, explain and reproduce schedules
    compile                 how code is compiled and cached
    env, pickjob            import paths that others rely on

Read first: ``engine/loop.py`` (the event loop), ``engine/backfill.py`` (the scheduling pass: EASY is there) and
``engine/capacity.py`` (what a machine is asked about a job). A package imports only what is above it in this list;
``tests/test_architecture.py`` enforces that.
"""
