SELECT count(*) FROM patents WHERE class_id = ANY (:'classes')
