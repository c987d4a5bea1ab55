-- The start of each setting's row in docs/reference.md
SELECT format('| `%s` | %s | %s | %s |', name,
        CASE
            WHEN vartype = 'string' THEN quote_literal(boot_val)
            WHEN vartype = 'real' THEN trim_scale(boot_val::numeric)::text
            WHEN coalesce(unit, '') = 'kB' AND boot_val::int % 1024 = 0 THEN boot_val::int / 1024 || 'MB'
            WHEN coalesce(unit, '') = 'ms' AND boot_val::int % 1000 = 0 THEN boot_val::int / 1000 || 's'
            ELSE boot_val
        END,
        CASE vartype
            WHEN 'bool' THEN 'on, off'
            WHEN 'enum' THEN array_to_string(enumvals, ', ')
            WHEN 'string' THEN 'text'
            ELSE min_val::numeric || ' to ' || max_val::numeric || coalesce(' ' || unit, '')
        END,
        CASE context WHEN 'postmaster' THEN 'restart' WHEN 'sighup' THEN 'reload' ELSE context END)
FROM pg_settings WHERE name LIKE 'gpujoin.%' ORDER BY name;
