BEGIN TRANSACTION;
CREATE TABLE "case" (
	id INTEGER NOT NULL, 
	"key" TEXT DEFAULT '' NOT NULL, 
	variant TEXT DEFAULT '' NOT NULL, 
	version TEXT DEFAULT '' NOT NULL, 
	kind TEXT DEFAULT '' NOT NULL, 
	name TEXT DEFAULT '' NOT NULL, 
	entry TEXT DEFAULT '' NOT NULL, 
	params TEXT, current_key TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE ("key", variant, version, kind)
);
INSERT INTO "case" VALUES(1,'sort','','1','entry','sort','sort',NULL,'sort');
INSERT INTO "case" VALUES(2,'join[n=1]','','1','entry','join[n=1]','join',NULL,'join[n=1]');
INSERT INTO "case" VALUES(3,'plain','','1','entry','plain','plain',NULL,'plain');
INSERT INTO "case" VALUES(4,'old_join[n=1]','','1','entry','old_join[n=1]','old_join',NULL,'join[n=1]');
CREATE TABLE case_alias (
	old_key TEXT NOT NULL, 
	new_key TEXT DEFAULT '' NOT NULL, 
	created_at TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (old_key)
);
INSERT INTO "case_alias" VALUES('old_join[n=1]','join[n=1]','2026-11-16T05:25:05.658Z');
CREATE TABLE commit_place (
	revision TEXT NOT NULL, 
	repository TEXT DEFAULT '' NOT NULL, 
	place INTEGER NOT NULL, 
	is_main INTEGER NOT NULL, commit_time TEXT, tags TEXT, order_time TEXT, 
	PRIMARY KEY (revision)
);
INSERT INTO "commit_place" VALUES('0000000000000000000000000000000000000002','',0,0,NULL,NULL,NULL);
INSERT INTO "commit_place" VALUES('0000000000000000000000000000000000000003','',0,0,NULL,NULL,NULL);
INSERT INTO "commit_place" VALUES('0000000000000000000000000000000000000004','',0,0,NULL,NULL,NULL);
INSERT INTO "commit_place" VALUES('0000000000000000000000000000000000000005','',0,0,NULL,NULL,NULL);
INSERT INTO "commit_place" VALUES('0000000000000000000000000000000000000006','',0,0,NULL,NULL,NULL);
INSERT INTO "commit_place" VALUES('0000000000000000000000000000000000000001','0000000000000000000000000000000000000009',3,1,'2026-11-01T00:00:00.000Z','[["v1","2026-11-01T00:00:00.000Z"]]',NULL);
CREATE TABLE detection (
	case_key TEXT NOT NULL, 
	mark TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (case_key)
);
INSERT INTO "detection" VALUES('sort','3:0:20f6e2e13f35ea03');
INSERT INTO "detection" VALUES('join[n=1]','3:0:2b6e573e710690f5');
INSERT INTO "detection" VALUES('plain','3:0:70d2a72b16110ba8');
CREATE TABLE environment (
	id INTEGER NOT NULL, 
	ident TEXT NOT NULL, 
	class_id TEXT DEFAULT '' NOT NULL, 
	python_version TEXT DEFAULT '' NOT NULL, 
	platform TEXT DEFAULT '' NOT NULL, 
	hostname TEXT DEFAULT '' NOT NULL, 
	data TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (ident)
);
INSERT INTO "environment" VALUES(1,'env-1','class-1','3.11.7','linux','box','{"id":"env-1","class_id":"class-1","hostname":"box","platform":"Linux-6.1-x86_64","python":{"version":"3.11.7"}}');
INSERT INTO "environment" VALUES(2,'env-2','class-1','3.11.7','linux','box','{"id":"env-2","class_id":"class-1","hostname":"box","platform":"Linux-6.1-x86_64","python":{"version":"3.11.7"}}');
CREATE TABLE epoch (
	ident BLOB NOT NULL, 
	case_key TEXT DEFAULT '' NOT NULL, 
	at TEXT DEFAULT '' NOT NULL, 
	why TEXT DEFAULT '' NOT NULL, 
	created_at TEXT DEFAULT '' NOT NULL, current_key TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (ident)
);
INSERT INTO "epoch" VALUES(X'1344AC2119985584B4B09CC2CEF47375','plain','2026-01-04T00:00:00.000Z','counts twice as much','2026-11-16T05:25:05.659Z','plain');
CREATE TABLE finding (
	ident TEXT NOT NULL, 
	incident TEXT DEFAULT '' NOT NULL, 
	case_key TEXT DEFAULT '' NOT NULL, 
	variant TEXT DEFAULT '' NOT NULL, 
	version TEXT DEFAULT '' NOT NULL, 
	metric TEXT DEFAULT '' NOT NULL, 
	unit TEXT DEFAULT '' NOT NULL, 
	environment_class TEXT DEFAULT '' NOT NULL, 
	epoch INTEGER NOT NULL, 
	verdict TEXT DEFAULT '' NOT NULL, 
	effect DOUBLE, 
	low DOUBLE, 
	high DOUBLE, 
	p_value DOUBLE, 
	last_good TEXT DEFAULT '' NOT NULL, 
	first_bad TEXT DEFAULT '' NOT NULL, 
	at_record TEXT DEFAULT '' NOT NULL, 
	at_time TEXT DEFAULT '' NOT NULL, 
	found_at TEXT DEFAULT '' NOT NULL, 
	found_in TEXT DEFAULT '' NOT NULL, 
	suspects TEXT, 
	state TEXT DEFAULT '' NOT NULL, 
	fixed_at TEXT DEFAULT '' NOT NULL, 
	stands INTEGER NOT NULL, 
	found_after INTEGER NOT NULL, kind TEXT DEFAULT 'step' NOT NULL, stage TEXT DEFAULT 'suspected' NOT NULL, culprit TEXT, runs INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (ident)
);
INSERT INTO "finding" VALUES('f00df00df0','i00000001','sort','','1','duration','s','class-1',0,'worse',0.5,0.25,0.75,0.001,'{"revision":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","session":"night-2","time":"2026-01-03T00:00:00.000Z","session_id":"","environment":""}','{"revision":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","session":"night-3","time":"2026-01-04T00:00:00.000Z","session_id":"","environment":""}','00','2026-01-04T00:00:00.000Z','2026-01-06T00:00:00.000Z','cc','[{"kind":"package","name":"dask","before":"2026.8.0","after":"2026.9.0"}]','new','',0,3,'step','bisected','{"kind":"commit","revision":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","subject":"Sort twice","author":"Demo","probability":0.97,"runs":12,"bisection":"bisect/sort"}',0);
CREATE TABLE history_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT history_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "history_version" VALUES('0009');
CREATE TABLE human_verdict (
	ident BLOB NOT NULL, 
	finding_ident TEXT DEFAULT '' NOT NULL, 
	state TEXT DEFAULT '' NOT NULL, 
	why TEXT DEFAULT '' NOT NULL, 
	who TEXT DEFAULT '' NOT NULL, 
	at TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (ident)
);
INSERT INTO "human_verdict" VALUES(X'4E1F114447A45CDF86E828A7CFAD3957','f00df00df0','false','a backup ran','ann','2026-01-07T00:00:00.000Z');
CREATE TABLE metric (
	series_id INTEGER NOT NULL, 
	record_id INTEGER NOT NULL, 
	value DOUBLE, 
	text TEXT, 
	sample_count INTEGER NOT NULL, 
	PRIMARY KEY (series_id, record_id),
  FOREIGN KEY (series_id) REFERENCES "series" (id), FOREIGN KEY (record_id) REFERENCES "record" (id)
)
 WITHOUT ROWID

;
INSERT INTO "metric" VALUES(1,1,1.0,NULL,3);
INSERT INTO "metric" VALUES(1,4,2.0,NULL,3);
INSERT INTO "metric" VALUES(1,7,3.0,NULL,3);
INSERT INTO "metric" VALUES(1,10,4.0,NULL,3);
INSERT INTO "metric" VALUES(1,13,5.0,NULL,3);
INSERT INTO "metric" VALUES(2,1,1000.0,NULL,1);
INSERT INTO "metric" VALUES(2,4,2000.0,NULL,1);
INSERT INTO "metric" VALUES(2,7,3000.0,NULL,1);
INSERT INTO "metric" VALUES(2,10,4000.0,NULL,1);
INSERT INTO "metric" VALUES(2,13,5000.0,NULL,1);
INSERT INTO "metric" VALUES(3,1,NULL,'fine',1);
INSERT INTO "metric" VALUES(3,4,NULL,'fine',1);
INSERT INTO "metric" VALUES(3,7,NULL,'fine',1);
INSERT INTO "metric" VALUES(3,10,NULL,'fine',1);
INSERT INTO "metric" VALUES(3,13,NULL,'fine',1);
INSERT INTO "metric" VALUES(4,1,NULL,'NaN',1);
INSERT INTO "metric" VALUES(4,4,NULL,'NaN',1);
INSERT INTO "metric" VALUES(4,7,NULL,'NaN',1);
INSERT INTO "metric" VALUES(4,10,NULL,'NaN',1);
INSERT INTO "metric" VALUES(4,13,NULL,'NaN',1);
INSERT INTO "metric" VALUES(5,2,11.0,NULL,1);
INSERT INTO "metric" VALUES(5,5,12.0,NULL,1);
INSERT INTO "metric" VALUES(5,8,13.0,NULL,1);
INSERT INTO "metric" VALUES(5,11,14.0,NULL,1);
INSERT INTO "metric" VALUES(5,14,15.0,NULL,1);
INSERT INTO "metric" VALUES(6,3,1.0,NULL,1);
INSERT INTO "metric" VALUES(6,6,2.0,NULL,1);
INSERT INTO "metric" VALUES(6,9,3.0,NULL,1);
INSERT INTO "metric" VALUES(6,12,4.0,NULL,1);
INSERT INTO "metric" VALUES(6,15,5.0,NULL,1);
INSERT INTO "metric" VALUES(7,16,99.0,NULL,1);
CREATE TABLE package (
	environment_id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	version TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (environment_id, name),
  FOREIGN KEY (environment_id) REFERENCES "environment" (id)
)
 WITHOUT ROWID

;
INSERT INTO "package" VALUES(1,'dask','2026.8.0');
INSERT INTO "package" VALUES(1,'distributed','2026.8.1');
INSERT INTO "package" VALUES(1,'mine','0.1');
INSERT INTO "package" VALUES(1,'odd-name','1');
INSERT INTO "package" VALUES(2,'dask','2026.9.0');
CREATE TABLE record (
	id INTEGER NOT NULL, 
	ident BLOB NOT NULL, 
	session_id INTEGER NOT NULL, 
	case_id INTEGER NOT NULL, 
	environment_id INTEGER NOT NULL, 
	setting_id INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	status TEXT DEFAULT '' NOT NULL, 
	started_at TEXT DEFAULT '' NOT NULL, 
	exec_time_s DOUBLE, 
	revision TEXT, 
	reason TEXT, 
	outcome TEXT, 
	digest BIGINT NOT NULL, source_id INTEGER, disturbed TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (case_id, session_id, attempt),
  FOREIGN KEY (session_id) REFERENCES "session" (id), FOREIGN KEY (case_id) REFERENCES "case" (id), FOREIGN KEY (environment_id) REFERENCES "environment" (id), FOREIGN KEY (setting_id) REFERENCES "setting" (id), FOREIGN KEY (source_id) REFERENCES "source" (id)
);
INSERT INTO "record" VALUES(1,X'75F1EBC0FEE459D6958F16512E701DF4',1,1,1,1,1,'passed','2026-01-02T00:00:00.000Z',0.5,NULL,NULL,'{"details":{"call_outcome":"passed","ended":"2026-01-02T00:00:01.000Z"}}',-1830214027114900515,1,'other processes used 1.00 CPU cores on average');
INSERT INTO "record" VALUES(2,X'1546931BACB25714B5770329E73B4EE9',1,2,1,2,1,'passed','2026-01-02T00:00:00.000Z',0.5,NULL,NULL,'{"timings_s":{"run":1.5}}',-7397204196934928217,NULL,NULL);
INSERT INTO "record" VALUES(3,X'5779A1C0CE71542888F05197DC301A47',1,3,1,3,1,'passed','2026-01-02T00:00:00.000Z',0.5,NULL,NULL,NULL,6255622348030777155,NULL,NULL);
INSERT INTO "record" VALUES(4,X'517AFCE22465566FB37471608A2EC7C1',2,1,1,1,1,'passed','2026-01-03T00:00:00.000Z',0.5,NULL,NULL,'{"details":{"call_outcome":"passed","ended":"2026-01-03T00:00:01.000Z"}}',-7302153943587274624,1,NULL);
INSERT INTO "record" VALUES(5,X'C04D00913F6D579CA9C7A059E0DEE10E',2,2,1,2,1,'passed','2026-01-03T00:00:00.000Z',0.5,NULL,NULL,'{"timings_s":{"run":1.5}}',-674317455513622860,NULL,NULL);
INSERT INTO "record" VALUES(6,X'DADB0F5FE17258D5A602379724039B14',2,3,1,3,1,'passed','2026-01-03T00:00:00.000Z',0.5,NULL,NULL,NULL,7180773179463953657,2,NULL);
INSERT INTO "record" VALUES(7,X'AAEEC2C18F58520494F333C808E616A9',3,1,1,1,1,'passed','2026-01-04T00:00:00.000Z',0.5,NULL,NULL,'{"details":{"call_outcome":"passed","ended":"2026-01-04T00:00:01.000Z"}}',6967292483534156927,1,NULL);
INSERT INTO "record" VALUES(8,X'7754288967DA5A7F8623E6EC60D9A5E2',3,2,1,2,1,'failed','2026-01-04T00:00:00.000Z',0.5,NULL,'exit code 1','{"timings_s":{"run":1.5},"returncode":1}',-1422225568801905361,NULL,NULL);
INSERT INTO "record" VALUES(9,X'B4072A3D57C659248493F30D70BCD30B',3,3,1,3,1,'passed','2026-01-04T00:00:00.000Z',0.5,NULL,NULL,NULL,3949191071389735366,3,NULL);
INSERT INTO "record" VALUES(10,X'A3F81D73FFA15C7D92CA92189A2BF6A2',4,1,1,1,1,'passed','2026-01-05T00:00:00.000Z',0.5,NULL,NULL,'{"details":{"call_outcome":"passed","ended":"2026-01-05T00:00:01.000Z"}}',-5804862622440456552,4,NULL);
INSERT INTO "record" VALUES(11,X'3633D87D33855DF7BB2C057F159A0759',4,2,1,2,1,'passed','2026-01-05T00:00:00.000Z',0.5,NULL,NULL,'{"timings_s":{"run":1.5}}',5249877022289351782,NULL,NULL);
INSERT INTO "record" VALUES(12,X'D714FC87152856C9ADC6B2C611E54743',4,3,1,3,1,'passed','2026-01-05T00:00:00.000Z',0.5,NULL,NULL,NULL,-8206349374967655770,NULL,NULL);
INSERT INTO "record" VALUES(13,X'126E6EFE3AB55021813E3144EE41529C',5,1,1,1,1,'passed','2026-01-06T00:00:00.000Z',0.5,NULL,NULL,'{"details":{"call_outcome":"passed","ended":"2026-01-06T00:00:01.000Z"}}',354312747588244543,4,NULL);
INSERT INTO "record" VALUES(14,X'90358E044BFB5B7EBD8F7B0A83FC0843',5,2,1,2,1,'passed','2026-01-06T00:00:00.000Z',0.5,NULL,NULL,'{"timings_s":{"run":1.5}}',-4768638698650809056,NULL,NULL);
INSERT INTO "record" VALUES(15,X'9AD2D923C5345372B8235154F4CC529F',5,3,1,3,1,'passed','2026-01-06T00:00:00.000Z',0.5,NULL,NULL,NULL,1235380276377881859,NULL,NULL);
INSERT INTO "record" VALUES(16,X'110C84315B82552CAB173031656D6689',6,4,2,3,1,'passed','2026-01-07T00:00:00.000Z',0.5,NULL,NULL,NULL,3516625151697479799,NULL,NULL);
CREATE TABLE repeated_sample (
	series_id INTEGER NOT NULL, 
	record_id INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	value DOUBLE, 
	text TEXT, 
	PRIMARY KEY (series_id, record_id, position),
  FOREIGN KEY (series_id) REFERENCES "series" (id), FOREIGN KEY (record_id) REFERENCES "record" (id)
)
 WITHOUT ROWID

;
INSERT INTO "repeated_sample" VALUES(1,1,0,0.9,NULL);
INSERT INTO "repeated_sample" VALUES(1,1,1,1.0,NULL);
INSERT INTO "repeated_sample" VALUES(1,1,2,1.1,NULL);
INSERT INTO "repeated_sample" VALUES(1,4,0,1.8,NULL);
INSERT INTO "repeated_sample" VALUES(1,4,1,2.0,NULL);
INSERT INTO "repeated_sample" VALUES(1,4,2,2.2,NULL);
INSERT INTO "repeated_sample" VALUES(1,7,0,2.7,NULL);
INSERT INTO "repeated_sample" VALUES(1,7,1,3.0,NULL);
INSERT INTO "repeated_sample" VALUES(1,7,2,3.30000000000000026645e+00,NULL);
INSERT INTO "repeated_sample" VALUES(1,10,0,3.6,NULL);
INSERT INTO "repeated_sample" VALUES(1,10,1,4.0,NULL);
INSERT INTO "repeated_sample" VALUES(1,10,2,4.4,NULL);
INSERT INTO "repeated_sample" VALUES(1,13,0,4.5,NULL);
INSERT INTO "repeated_sample" VALUES(1,13,1,5.0,NULL);
INSERT INTO "repeated_sample" VALUES(1,13,2,5.5,NULL);
CREATE TABLE search_state (
	name TEXT NOT NULL, 
	value DOUBLE NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "search_state" VALUES('order',0.0);
INSERT INTO "search_state" VALUES('credit',0.0);
CREATE TABLE series (
	id INTEGER NOT NULL, 
	case_id INTEGER NOT NULL, 
	name TEXT DEFAULT '' NOT NULL, 
	unit TEXT DEFAULT '' NOT NULL, 
	direction TEXT DEFAULT '' NOT NULL, is_steady INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (case_id, name, unit),
  FOREIGN KEY (case_id) REFERENCES "case" (id)
);
INSERT INTO "series" VALUES(1,1,'duration','s','lower',0);
INSERT INTO "series" VALUES(2,1,'average_memory','bytes','lower',1);
INSERT INTO "series" VALUES(3,1,'note','','',0);
INSERT INTO "series" VALUES(4,1,'odd','s','lower',0);
INSERT INTO "series" VALUES(5,2,'wall_s','s','lower',0);
INSERT INTO "series" VALUES(6,3,'wall_s','s','lower',0);
INSERT INTO "series" VALUES(7,4,'wall_s','s','lower',0);
CREATE TABLE session (
	id INTEGER NOT NULL, 
	ident BLOB NOT NULL, 
	name TEXT DEFAULT '' NOT NULL, 
	kind TEXT DEFAULT '' NOT NULL, 
	started_at TEXT DEFAULT '' NOT NULL, 
	revision TEXT DEFAULT '' NOT NULL, 
	branch TEXT DEFAULT '' NOT NULL, 
	commit_time TEXT DEFAULT '' NOT NULL, 
	directory TEXT DEFAULT '' NOT NULL, 
	ci_run_url TEXT DEFAULT '' NOT NULL, 
	tool TEXT DEFAULT '' NOT NULL, 
	meta TEXT, merge_base TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (ident)
);
INSERT INTO "session" VALUES(1,X'8265C1EBC13356428DBD3A722D494F44','night-1','session','2026-01-02T00:00:00.000Z','0000000000000000000000000000000000000001','main','','/data/results/night-1','','paceline','{"run_reason":"nightly"}','0000000000000000000000000000000000000001');
INSERT INTO "session" VALUES(2,X'6632AC1D69525F08BF1C5AD5F45E0FB1','night-2','session','2026-01-03T00:00:00.000Z','0000000000000000000000000000000000000002','main','','/data/results/night-2','','paceline','{"run_reason":"nightly"}','');
INSERT INTO "session" VALUES(3,X'14946776D0665DD19EE140E6E6BDF862','night-3','session','2026-01-04T00:00:00.000Z','0000000000000000000000000000000000000003','main','','/data/results/night-3','','paceline','{"run_reason":"nightly"}','');
INSERT INTO "session" VALUES(4,X'055193FE9F2E55088D61A89B3C2ED3D9','night-4','session','2026-01-05T00:00:00.000Z','0000000000000000000000000000000000000004','main','','/data/results/night-4','','paceline','{"run_reason":"nightly"}','');
INSERT INTO "session" VALUES(5,X'DDBDF75F6F4B5122AFB2BB2C8A2935FF','night-5','session','2026-01-06T00:00:00.000Z','0000000000000000000000000000000000000005','main','','/data/results/night-5','','paceline','{"run_reason":"nightly"}','');
INSERT INTO "session" VALUES(6,X'DAB73E62DBEC54AABA5CE4253E5880D7','night-6','session','2026-01-07T00:00:00.000Z','0000000000000000000000000000000000000006','','','','','paceline',NULL,'');
CREATE TABLE setting (
	id INTEGER NOT NULL, 
	digest BLOB NOT NULL, 
	data TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (digest)
);
INSERT INTO "setting" VALUES(1,X'C70FCD2D8C9EA3A5D2781585E4DFC509','{"details":{"nodeid":"tests/test_sort.py::test_sort","path":"tests/test_sort.py","test_name":"test_sort","original_name":"test_sort"}}');
INSERT INTO "setting" VALUES(2,X'141CDB19E4A08E669E74E3E79C7D956E','{"command":["python","session/join"]}');
INSERT INTO "setting" VALUES(3,X'2AFB9B83F9314E5D029766197F539792','{}');
CREATE TABLE source (
	id INTEGER NOT NULL, 
	hash TEXT NOT NULL, 
	text TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (hash)
);
INSERT INTO "source" VALUES(1,'aaaa','def test_sort():
    assert sorted([2, 1]) == [1, 2]
');
INSERT INTO "source" VALUES(2,'cccc',NULL);
INSERT INTO "source" VALUES(3,'9e26bf369911c45c','x = 1
');
INSERT INTO "source" VALUES(4,'bbbb','def test_sort():
    assert sorted([3, 2, 1])
');
CREATE INDEX record_of_session ON record (session_id);
CREATE INDEX finding_of_case ON finding (case_key);
CREATE INDEX case_by_name ON "case" (current_key);
CREATE INDEX epoch_by_name ON epoch (current_key);
CREATE INDEX record_of_revision ON record (revision) WHERE revision IS NOT NULL;
CREATE VIEW sample AS
SELECT m.series_id, m.record_id, coalesce(r.position, 0) AS position,
  CASE WHEN r.position IS NULL THEN m.value ELSE r.value END AS value,
  CASE WHEN r.position IS NULL THEN m.text ELSE r.text END AS text
FROM metric m
LEFT JOIN repeated_sample r ON r.series_id = m.series_id AND r.record_id = m.record_id
WHERE m.sample_count > 0;
CREATE VIEW measurement AS
SELECT c.current_key AS case_key,
  nullif(c.variant, '') AS variant,
  nullif(c.version, '') AS version,
  d.name AS metric,
  nullif(d.unit, '') AS unit,
  nullif(d.direction, '') AS direction,
  m.value AS value,
  m.text AS text,
  m.sample_count AS sample_count,
  r.status AS status,
  r.attempt AS attempt,
  nullif(r.started_at, '') AS started_at,
  nullif(coalesce(r.revision, s.revision), '') AS revision,
  s.name AS session,
  lower(hex(s.ident)) AS session_id,
  e.ident AS environment,
  nullif(e.class_id, '') AS environment_class,
  (SELECT count(DISTINCT p.at) FROM epoch p
    WHERE p.current_key IN (c.current_key, substr(c.current_key, 1, instr(c.current_key || '[', '[') - 1)) AND p.at <= r.started_at) AS epoch,
  lower(hex(r.ident)) AS record
FROM "case" c
JOIN series d ON d.case_id = c.id
JOIN metric m ON m.series_id = d.id
JOIN record r ON r.id = m.record_id
JOIN session s ON s.id = r.session_id
JOIN environment e ON e.id = r.environment_id;
CREATE VIEW measured_revision AS
SELECT revision, commit_time, order_time, repository, place, tags,
  CASE WHEN is_other = 1 AND min(is_other) OVER () = 0 THEN 1 ELSE 0 END AS is_aside
FROM (
  SELECT t.revision, coalesce(nullif(p.commit_time, ''), nullif(t.commit_time, '')) AS commit_time,
    CASE WHEN p.repository <> '' THEN coalesce(p.order_time, p.commit_time, '')
      ELSE coalesce(p.order_time, nullif(t.commit_time, '')) END AS order_time,
    nullif(p.repository, '') AS repository, CASE WHEN p.repository <> '' THEN p.place END AS place, p.tags,
    CASE WHEN p.repository <> '' THEN 1 - p.is_main ELSE t.is_other END AS is_other
  FROM (
    SELECT revision, max(commit_time) AS commit_time,
      min(CASE WHEN branch IN ('main', 'master', 'trunk') OR merge_base IN ('', revision) THEN 0 ELSE 1 END) AS is_other
    FROM session WHERE revision <> '' GROUP BY revision
    UNION ALL
    SELECT DISTINCT revision, '', 0 FROM record
    WHERE revision <> '' AND revision NOT IN (SELECT revision FROM session)
  ) t LEFT JOIN commit_place p ON p.revision = t.revision
) told;
CREATE VIEW point AS
WITH given AS (
SELECT c.current_key AS case_key,
  nullif(c.variant, '') AS variant,
  nullif(c.version, '') AS version,
  d.name AS metric,
  nullif(d.unit, '') AS unit,
  nullif(d.direction, '') AS direction,
  m.value AS value,
  m.text AS text,
  m.sample_count AS sample_count,
  r.status AS status,
  r.attempt AS attempt,
  nullif(r.started_at, '') AS started_at,
  nullif(coalesce(r.revision, s.revision), '') AS revision,
  s.name AS session,
  lower(hex(s.ident)) AS session_id,
  e.ident AS environment,
  nullif(e.class_id, '') AS environment_class,
  (SELECT count(DISTINCT p.at) FROM epoch p
    WHERE p.current_key IN (c.current_key, substr(c.current_key, 1, instr(c.current_key || '[', '[') - 1)) AND p.at <= r.started_at) AS epoch,
  lower(hex(r.ident)) AS record,
  r.id AS number,
  o.commit_time AS commit_time,
  o.order_time AS order_time,
  o.repository AS repository,
  o.place AS place
FROM "case" c
JOIN series d ON d.case_id = c.id
JOIN metric m ON m.series_id = d.id
JOIN record r ON r.id = m.record_id
JOIN session s ON s.id = r.session_id
JOIN environment e ON e.id = r.environment_id
LEFT JOIN (
SELECT revision, commit_time, order_time, repository, place, tags,
  CASE WHEN is_other = 1 AND min(is_other) OVER () = 0 THEN 1 ELSE 0 END AS is_aside
FROM (
  SELECT t.revision, coalesce(nullif(p.commit_time, ''), nullif(t.commit_time, '')) AS commit_time,
    CASE WHEN p.repository <> '' THEN coalesce(p.order_time, p.commit_time, '')
      ELSE coalesce(p.order_time, nullif(t.commit_time, '')) END AS order_time,
    nullif(p.repository, '') AS repository, CASE WHEN p.repository <> '' THEN p.place END AS place, p.tags,
    CASE WHEN p.repository <> '' THEN 1 - p.is_main ELSE t.is_other END AS is_other
  FROM (
    SELECT revision, max(commit_time) AS commit_time,
      min(CASE WHEN branch IN ('main', 'master', 'trunk') OR merge_base IN ('', revision) THEN 0 ELSE 1 END) AS is_other
    FROM session WHERE revision <> '' GROUP BY revision
    UNION ALL
    SELECT DISTINCT revision, '', 0 FROM record
    WHERE revision <> '' AND revision NOT IN (SELECT revision FROM session)
  ) t LEFT JOIN commit_place p ON p.revision = t.revision
) told) o ON o.revision = nullif(coalesce(r.revision, s.revision), '')
WHERE c.kind = 'entry' AND d.direction <> '' AND m.value IS NOT NULL
    AND r.status IN ('passed', 'requirement_failed') AND (d.is_steady = 1 OR r.disturbed IS NULL)
    AND coalesce(o.is_aside, 0) = 0 AND NOT EXISTS (
      SELECT 1 FROM "case" k CROSS JOIN record a WHERE a.case_id = k.id AND k.current_key = c.current_key
        AND k.variant = c.variant AND k.version = c.version AND a.session_id = r.session_id
        AND a.attempt > r.attempt)
), ranked AS (
  SELECT *, count(order_time) OVER (PARTITION BY case_key, variant, version, metric, unit, environment_class, epoch ORDER BY coalesce(started_at, ''), number) AS passed,
    CASE WHEN order_time IS NOT NULL THEN row_number() OVER (PARTITION BY case_key, variant, version, metric, unit, environment_class, epoch ORDER BY order_time IS NULL, order_time, coalesce(repository, ''), coalesce(place, 0), coalesce(started_at, ''), number) END AS rank
  FROM given
), followed AS (
  SELECT *, lead(rank) OVER (PARTITION BY case_key, variant, version, metric, unit, environment_class, epoch ORDER BY order_time IS NULL, passed) AS next_rank,
    max(CASE WHEN passed = 1 THEN rank END) OVER (PARTITION BY case_key, variant, version, metric, unit, environment_class, epoch) AS first_rank
  FROM ranked
), placed AS (
  SELECT *, max(rank) OVER (PARTITION BY case_key, variant, version, metric, unit, environment_class, epoch, passed) AS before,
    max(CASE WHEN rank IS NOT NULL THEN next_rank END) OVER (PARTITION BY case_key, variant, version, metric, unit, environment_class, epoch, passed) AS after
  FROM followed
)
SELECT case_key, variant, version, metric, unit, direction, environment_class, epoch, revision, commit_time, started_at, session, value, sample_count, record, row_number() OVER (PARTITION BY case_key, variant, version, metric, unit, environment_class, epoch ORDER BY
    CASE WHEN rank IS NOT NULL THEN 2 * rank + 1
      WHEN passed = 0 THEN 2 * first_rank
      WHEN after = before - 1 THEN 2 * before
      ELSE 2 * before + 2 END, coalesce(started_at, ''), number) - 1 AS position
FROM placed;
CREATE VIEW test_run AS
SELECT
  coalesce(CAST(round((julianday(nullif(coalesce(coalesce(json_extract(r.outcome, '$.details.started'), json_extract(t.data, '$.details.started')), r.started_at), '')) - 2440587.5) * 86400000) AS INTEGER), 0) * 1048576 + (r.id & 1048575) AS id,
  lower(hex(s.ident)) AS session_id,
  coalesce(coalesce(json_extract(r.outcome, '$.details.test_name'), json_extract(t.data, '$.details.test_name')), c.name) AS name,
  coalesce(coalesce(json_extract(r.outcome, '$.details.original_name'), json_extract(t.data, '$.details.original_name')), c.entry) AS originalname,
  coalesce(json_extract(r.outcome, '$.details.path'), json_extract(t.data, '$.details.path')) AS path,
  coalesce(json_extract(r.outcome, '$.details.setup_outcome'), json_extract(t.data, '$.details.setup_outcome')) AS setup_outcome,
  coalesce(coalesce(json_extract(r.outcome, '$.details.call_outcome'), json_extract(t.data, '$.details.call_outcome')), CASE WHEN r.status IN ('passed', 'failed', 'skipped') THEN r.status ELSE 'failed' END) AS call_outcome,
  coalesce(json_extract(r.outcome, '$.details.teardown_outcome'), json_extract(t.data, '$.details.teardown_outcome')) AS teardown_outcome,
  coalesce(coalesce(json_extract(r.outcome, '$.details.coiled_runtime_version'), json_extract(t.data, '$.details.coiled_runtime_version')), coalesce(json_extract(r.outcome, '$.details.arm'), json_extract(t.data, '$.details.arm')), nullif(c.variant, ''), 'upstream') AS coiled_runtime_version,
  coalesce(json_extract(r.outcome, '$.details.coiled_software_name'), json_extract(t.data, '$.details.coiled_software_name')) AS coiled_software_name,
  coalesce(coalesce(json_extract(r.outcome, '$.details.dask_version'), json_extract(t.data, '$.details.dask_version')), (SELECT p.version FROM package p WHERE p.environment_id = e.id AND p.name = 'dask')) AS dask_version,
  coalesce(coalesce(json_extract(r.outcome, '$.details.dask_expr_version'), json_extract(t.data, '$.details.dask_expr_version')), (SELECT p.version FROM package p WHERE p.environment_id = e.id AND p.name = 'dask-expr')) AS dask_expr_version,
  coalesce(coalesce(json_extract(r.outcome, '$.details.distributed_version'), json_extract(t.data, '$.details.distributed_version')), (SELECT p.version FROM package p WHERE p.environment_id = e.id AND p.name = 'distributed')) AS distributed_version,
  coalesce(coalesce(json_extract(r.outcome, '$.details.python_version'), json_extract(t.data, '$.details.python_version')), nullif(e.python_version, '')) AS python_version,
  coalesce(coalesce(json_extract(r.outcome, '$.details.platform'), json_extract(t.data, '$.details.platform')), nullif(e.platform, '')) AS platform,
  coalesce(coalesce(json_extract(r.outcome, '$.details.ci_run_url'), json_extract(t.data, '$.details.ci_run_url')), nullif(s.ci_run_url, '')) AS ci_run_url,
  nullif(replace(replace(coalesce(coalesce(json_extract(r.outcome, '$.details.started'), json_extract(t.data, '$.details.started')), r.started_at), 'T', ' '), 'Z', ''), '') AS start,
  nullif(replace(replace(coalesce(json_extract(r.outcome, '$.details.ended'), json_extract(t.data, '$.details.ended')), 'T', ' '), 'Z', ''), '') AS "end",
  coalesce((SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'duration' LIMIT 1), (SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'exec_time_s' LIMIT 1)) AS duration,
  coalesce((SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'average_memory' LIMIT 1), (SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'mean_memory_bytes' LIMIT 1)) AS average_memory,
  coalesce((SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'peak_memory' LIMIT 1), (SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'peak_memory_bytes' LIMIT 1)) AS peak_memory,
  (SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'compute_time' LIMIT 1) AS compute_time,
  coalesce((SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'disk_spill_time' LIMIT 1), (SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'coiled_disk_spill_time' LIMIT 1)) AS disk_spill_time,
  coalesce((SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'serializing_time' LIMIT 1), (SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'coiled_serializing_time' LIMIT 1)) AS serializing_time,
  (SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'transfer_time' LIMIT 1) AS transfer_time,
  coalesce((SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'scheduler_cpu_avg' LIMIT 1), (SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'coiled_scheduler_cpu_avg' LIMIT 1)) AS scheduler_cpu_avg,
  coalesce((SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'scheduler_memory_max' LIMIT 1), (SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'coiled_scheduler_memory_max' LIMIT 1)) AS scheduler_memory_max,
  coalesce((SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'worker_max_tick' LIMIT 1), (SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'coiled_worker_max_tick' LIMIT 1)) AS worker_max_tick,
  coalesce((SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'scheduler_max_tick' LIMIT 1), (SELECT m.value FROM series d JOIN metric m ON m.series_id = d.id AND m.record_id = r.id WHERE d.case_id = r.case_id AND d.name = 'coiled_scheduler_max_tick' LIMIT 1)) AS scheduler_max_tick,
  coalesce(json_extract(r.outcome, '$.details.cluster_name'), json_extract(t.data, '$.details.cluster_name')) AS cluster_name,
  coalesce(json_extract(r.outcome, '$.details.cluster_id'), json_extract(t.data, '$.details.cluster_id')) AS cluster_id,
  coalesce(json_extract(r.outcome, '$.details.cluster_details_url'), json_extract(t.data, '$.details.cluster_details_url')) AS cluster_details_url,
  coalesce(json_extract(r.outcome, '$.details.performance_report_url'), json_extract(t.data, '$.details.performance_report_url')) AS performance_report_url,
  coalesce(json_extract(r.outcome, '$.details.cluster_dump_url'), json_extract(t.data, '$.details.cluster_dump_url')) AS cluster_dump_url,
  coalesce(json_extract(r.outcome, '$.details.memray_profiles_url'), json_extract(t.data, '$.details.memray_profiles_url')) AS memray_profiles_url,
  coalesce(json_extract(r.outcome, '$.details.py_spy_profiles_url'), json_extract(t.data, '$.details.py_spy_profiles_url')) AS py_spy_profiles_url
FROM record r
JOIN session s ON s.id = r.session_id
JOIN environment e ON e.id = r.environment_id
JOIN "case" c ON c.id = r.case_id
JOIN setting t ON t.id = r.setting_id
ORDER BY 1;
COMMIT;
