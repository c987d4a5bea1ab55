-- Create the tables of demo and benchmark: patents, filled in parts (fill.sql), and 4,000 of their
-- 80,000 classes, so that one patent in twenty matches. Classes are multiples of :step: with 2,
-- odd numbers are keys that match nothing, for sets that need such keys.

CREATE TABLE patents (
    patent_id    integer NOT NULL,
    class_id     integer NOT NULL,
    app_year     integer NOT NULL,
    issue_year   integer NOT NULL,
    company_id   integer NOT NULL,
    is_important boolean NOT NULL
);

SELECT setseed(0.4);
CREATE TABLE top_classes AS
    SELECT :step * n AS class_id FROM generate_series(1, 80000) AS n ORDER BY random() LIMIT 4000;
VACUUM ANALYZE top_classes;
