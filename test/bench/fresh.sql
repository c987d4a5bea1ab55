-- test/bench/fresh.sql: what bench_fresh.sh observes of an index while rows are inserted. The table
-- is t, the index t_index. Run by a superuser: it reads other processes' times from /proc.

CREATE TABLE seen (part text, what text, value float8);
CREATE TABLE windows (part text, what text, began float8, ended float8);
CREATE TABLE watch_end (part text);

CREATE FUNCTION at_most(jsonb, what text, value float8) RETURNS jsonb LANGUAGE sql AS $$
    SELECT CASE WHEN value IS NULL OR value <= coalesce(($1 ->> what)::float8, -1) THEN $1
        ELSE $1 || jsonb_build_object(what, value) END
$$;

-- Look at the locks, the workers, VACUUM and the size of the file every few milliseconds until
-- watch_end has a row for the part. Each look is a transaction, so that its snapshot does not hold
-- back VACUUM. The fold lock is held for at most the times reported: they include the moment before
-- the first look that found it held. A lock is released and taken again by another unit of a
-- worker's work if the transaction is another one.
CREATE PROCEDURE watch(wanted_part text, seconds int) LANGUAGE plpgsql AS $$
DECLARE
    now_ms float8;
    before_ms float8 := extract(epoch FROM clock_timestamp()) * 1000;
    until_ms float8 := before_ms + seconds * 1000;
    most jsonb := '{}';
    one record;
    unit text;
    unit_ms float8;
    kind text;
    xmin_pid int;
    xmin_of xid;
    xmin_ms float8;
    worker int;
    worker_ms float8 := 0;
    workers_ms float8 := 0;
    wal pg_lsn := pg_current_wal_insert_lsn();
    wal_ms float8 := before_ms;
    phase text;
    phase_ms float8;
    now_phase text;
    is_first bool := true;
BEGIN
    COMMIT;
    LOOP
        PERFORM pg_sleep(0.005);
        COMMIT;
        now_ms := extract(epoch FROM clock_timestamp()) * 1000;
        EXIT WHEN now_ms > until_ms OR EXISTS (SELECT FROM watch_end WHERE part = wanted_part);

        FOR one IN SELECT l.pid, l.granted, l.virtualtransaction AS transaction, l.waitstart,
            a.backend_type, a.query
            FROM pg_locks l JOIN pg_stat_activity a USING (pid)
            WHERE l.locktype = 'userlock' AND l.objsubid = 4 AND l.mode = 'ExclusiveLock'
        LOOP
            kind := CASE WHEN one.backend_type = 'gpujoin fold worker'
                    THEN split_part(one.query, ' ', 1)
                WHEN one.query ILIKE '%vacuum%' THEN 'vacuum' ELSE 'another' END;
            IF NOT one.granted THEN
                most := at_most(most, kind || ' waits',
                    now_ms - extract(epoch FROM one.waitstart) * 1000);
            ELSE
                IF one.pid || ' ' || one.transaction || kind IS DISTINCT FROM unit THEN
                    unit := one.pid || ' ' || one.transaction || kind;
                    unit_ms := before_ms;
                END IF;
                most := at_most(most, kind || ' holds', now_ms - unit_ms);
            END IF;
        END LOOP;

        FOR one IN SELECT pid, backend_xmin FROM pg_stat_activity
            WHERE backend_type = 'gpujoin fold worker'
        LOOP
            IF one.pid IS DISTINCT FROM worker THEN
                workers_ms := workers_ms + worker_ms;
                worker := one.pid;
                most := at_most(most, 'workers', coalesce((most ->> 'workers')::float8, 0) + 1);
                worker_ms := 0;
                -- what a worker has done before is not counted
                IF is_first THEN
                    workers_ms := -cpu_ms(one.pid);
                END IF;
            END IF;
            worker_ms := greatest(worker_ms, cpu_ms(one.pid));
            IF one.backend_xmin IS NULL THEN
                xmin_of := NULL;
            ELSE
                IF xmin_of IS DISTINCT FROM one.backend_xmin OR xmin_pid <> one.pid THEN
                    xmin_of := one.backend_xmin;
                    xmin_pid := one.pid;
                    xmin_ms := before_ms;
                END IF;
                most := at_most(most, 'xmin', now_ms - xmin_ms);
            END IF;
        END LOOP;

        IF now_ms >= wal_ms + 1000 THEN
            most := at_most(most, 'WAL a second', pg_wal_lsn_diff(pg_current_wal_insert_lsn(), wal)::
                float8 / (now_ms - wal_ms) * 1000);
            wal := pg_current_wal_insert_lsn();
            wal_ms := now_ms;
            most := at_most(most, 'file', pg_relation_size(to_regclass('t_index')));
        END IF;

        SELECT p.phase INTO now_phase FROM pg_stat_progress_vacuum p
            WHERE relid = to_regclass('t');
        IF now_phase IS DISTINCT FROM phase THEN
            IF phase IS NOT NULL THEN
                INSERT INTO windows VALUES (wanted_part, phase, phase_ms, now_ms);
            END IF;
            phase := now_phase;
            phase_ms := before_ms;
        END IF;
        before_ms := now_ms;
        is_first := false;
        COMMIT;
    END LOOP;
    most := at_most(most, 'worker cpu', workers_ms + worker_ms);
    most := at_most(most, 'file', pg_relation_size(to_regclass('t_index')));
    IF phase IS NOT NULL THEN
        INSERT INTO windows VALUES (wanted_part, phase, phase_ms, before_ms);
    END IF;
    INSERT INTO seen SELECT wanted_part, key, value::float8 FROM jsonb_each_text(most);
    DELETE FROM watch_end WHERE part = wanted_part;
END $$;

-- Wait until no worker is left; returns the seconds that this took, or NULL after the limit.
CREATE PROCEDURE wait_for_rest(seconds int, INOUT waited float8) LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    LOOP
        COMMIT;
        waited := extract(epoch FROM clock_timestamp() - began);
        EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity
            WHERE backend_type = 'gpujoin fold worker');
        IF waited > seconds THEN
            waited := NULL;
            EXIT;
        END IF;
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
