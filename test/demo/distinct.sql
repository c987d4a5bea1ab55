SELECT DISTINCT p.patent_id, p.class_id, p.app_year, p.issue_year, p.company_id, p.is_important
FROM top_classes t JOIN patents p ON p.class_id = t.class_id
