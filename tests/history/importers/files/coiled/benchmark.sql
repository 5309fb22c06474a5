-- The table as Coiled's migrations leave it, with rows of two nights, of an arm of an A/B test and of a doubled merge.
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL);
CREATE TABLE test_run (
  id INTEGER NOT NULL PRIMARY KEY, session_id VARCHAR NOT NULL, name VARCHAR NOT NULL, originalname VARCHAR NOT NULL,
  path VARCHAR, setup_outcome VARCHAR, call_outcome VARCHAR, teardown_outcome VARCHAR, coiled_runtime_version VARCHAR,
  coiled_software_name VARCHAR, dask_version VARCHAR, distributed_version VARCHAR, python_version VARCHAR,
  platform VARCHAR, ci_run_url VARCHAR, start DATETIME, "end" DATETIME, duration FLOAT, average_memory FLOAT,
  peak_memory FLOAT, compute_time FLOAT, disk_spill_time FLOAT, serializing_time FLOAT, transfer_time FLOAT,
  performance_report_url VARCHAR, cluster_dump_url VARCHAR, cluster_name VARCHAR, cluster_id INTEGER,
  cluster_details_url VARCHAR, scheduler_cpu_avg FLOAT, scheduler_memory_max FLOAT, worker_max_tick FLOAT,
  scheduler_max_tick FLOAT, dask_expr_version VARCHAR, py_spy_profiles_url VARCHAR, memray_profiles_url VARCHAR);
CREATE TABLE tpch_run (id INTEGER NOT NULL PRIMARY KEY, session_id VARCHAR NOT NULL, name VARCHAR NOT NULL,
  query INTEGER NOT NULL, scale INTEGER NOT NULL, local BOOLEAN NOT NULL, duration FLOAT);
INSERT INTO test_run (id, session_id, name, originalname, path, setup_outcome, call_outcome, coiled_runtime_version,
  coiled_software_name, dask_version, distributed_version, python_version, platform, ci_run_url, start, "end", duration,
  average_memory, peak_memory, compute_time, disk_spill_time, serializing_time, transfer_time, cluster_name, cluster_id,
  cluster_details_url, scheduler_cpu_avg, scheduler_memory_max, worker_max_tick, scheduler_max_tick) VALUES
(1, 'aaaa0001', 'test_anom_mean[uncompressible-p2p]', 'test_anom_mean', 'benchmarks/test_array.py', 'passed', 'passed',
  'upstream', 'package_sync', '2025.5.1', '2025.5.1', '3.10.16.final.0', 'linux', 'https://ci.example/runs/1',
  '2025-06-08 00:10:00.250000', '2025-06-08 00:11:02.750000', 62.5, 21474836480.0, 34359738368.0, 410.5, 12.25, 3.5,
  80.0, 'array-1', 101, 'https://cluster.example/101', 0.45, 2147483648.0, 0.61, 0.12),
(2, 'aaaa0001', 'test_set_index', 'test_set_index', 'benchmarks/test_dataframe.py', 'passed', 'failed', 'upstream',
  'package_sync', '2025.5.1', '2025.5.1', '3.10.16.final.0', 'linux', 'https://ci.example/runs/1',
  '2025-06-08 00:12:00', '2025-06-08 00:12:30', 30.0, NULL, NULL, NULL, NULL, NULL, NULL, 'frame-1', 102, NULL, NULL,
  NULL, NULL, NULL),
(3, 'aaaa0001', 'test_snowflake', 'test_snowflake', 'benchmarks/test_snowflake.py', 'skipped', NULL, 'upstream',
  'package_sync', '2025.5.1', '2025.5.1', '3.10.16.final.0', 'linux', 'https://ci.example/runs/1', NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
(4, 'aaaa0002', 'test_anom_mean[uncompressible-p2p]', 'test_anom_mean', 'benchmarks/test_array.py', 'passed', 'passed',
  'upstream', 'package_sync', '2025.5.1', '2025.5.1', '3.10.16.final.0', 'linux', 'https://ci.example/runs/2',
  '2025-06-10 00:10:00', '2025-06-10 00:11:00', 60.0, 21474836480.0, 34359738368.0, 405.0, 12.0, 3.25, 79.0, 'array-2',
  103, 'https://cluster.example/103', 0.44, 2147483648.0, 0.6, 0.11),
(5, 'bbbb0001', 'test_anom_mean[uncompressible-p2p]', 'test_anom_mean', 'benchmarks/test_array.py', 'passed', 'passed',
  'AB_baseline', 'package_sync', '2025.4.0', '2025.4.0', '3.11.9.final.0', 'linux', NULL, '2025-06-11 09:00:00',
  '2025-06-11 09:01:10', 70.0, NULL, NULL, NULL, NULL, NULL, NULL, 'ab-1', 104, NULL, NULL, NULL, NULL, NULL);
INSERT INTO test_run SELECT 6, session_id, name, originalname, path, setup_outcome, call_outcome, teardown_outcome,
  coiled_runtime_version, coiled_software_name, dask_version, distributed_version, python_version, platform, ci_run_url,
  start, "end", duration, average_memory, peak_memory, compute_time, disk_spill_time, serializing_time, transfer_time,
  performance_report_url, cluster_dump_url, cluster_name, cluster_id, cluster_details_url, scheduler_cpu_avg,
  scheduler_memory_max, worker_max_tick, scheduler_max_tick, dask_expr_version, py_spy_profiles_url, memray_profiles_url
  FROM test_run WHERE id = 1;
INSERT INTO tpch_run VALUES (1, 'aaaa0001', 'test_query_1', 1, 100, 0, NULL);
