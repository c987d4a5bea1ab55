-- Patents :first to :last, of :companies companies; :step as in data.sql. The same rows on every
-- run: the seed depends on :first alone.

SELECT setseed(1.0 / :first) \g /dev/null
INSERT INTO patents
    SELECT id,
           :step * (1 + floor(random() * 80000)),
           year,
           year + 1 + floor(random() * 4),
           1 + floor(random() * :companies),
           random() < 0.1
    FROM (SELECT id, 1976 + floor(random() * 40) AS year
          -- generate_series in a target list is not materialized first.
          FROM (SELECT generate_series(:first, :last) AS id) AS i) AS s;
