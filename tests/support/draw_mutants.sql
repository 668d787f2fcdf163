-- Keep 300 of about 3,200 mutants, without unions and stars, which break imports.
DELETE FROM work_items WHERE job_id NOT IN (
    SELECT job_id FROM mutation_specs
    WHERE operator_name NOT GLOB '*_BitOr_*'
      AND operator_name NOT GLOB '*_Mul_*' AND operator_name NOT GLOB '*_Pow_*'
    ORDER BY random() LIMIT 300);
DELETE FROM mutation_specs WHERE job_id NOT IN (SELECT job_id FROM work_items);
