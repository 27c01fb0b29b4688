select count(*) from bench_work.effect
