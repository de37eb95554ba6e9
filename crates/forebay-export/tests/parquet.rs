//! Parquet files of many records: row groups of a bounded number of rows, and what a broker's
//! records have besides.

use forebay_export::{Origin, RecordFormat, RecordWriter, Row};
use forebay_flow::{DirectionCounts, EndReason, FlowRecord};
use forebay_packet::FlowKey;
use forebay_packet::flow::AddressKind;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;

/// The most that a record counts.
const MOST_PACKETS: u64 = (1 << 44) - 1;

fn record(number: u64) -> FlowRecord {
    let key = FlowKey {
        low: u128::from(number),
        high: u128::from(u32::MAX),
        protocol: 17,
        kind: AddressKind::Ipv4,
        has_ports: true,
        ..FlowKey::default()
    };
    let mut record = FlowRecord::new(key, false, 0).with_directions([
        DirectionCounts { packets: number, bytes: 1, first: 2, last: 3 },
        DirectionCounts { packets: MOST_PACKETS, bytes: 4, first: -5, last: i64::MAX },
    ]);
    record.ended = Some(EndReason::Idle);
    (record.cut, record.shed) = (7, u32::MAX);
    record
}

#[test]
fn memory_holds_one_row_group() {
    let records = 80_000;
    let mut writer = RecordWriter::new(Vec::new(), RecordFormat::Parquet, false).unwrap();
    let mut lens = Vec::new();
    for number in 0..records {
        writer.write(&Row::new(&record(number), 0, None)).unwrap();
        lens.push(writer.len());
    }
    // Each row group is written when its last row comes.
    lens.dedup();
    assert_eq!(lens.len(), 1 + records as usize / 32_768);
    let file = SerializedFileReader::new(bytes::Bytes::from(writer.finish().unwrap())).unwrap();
    let groups = file.metadata().row_groups();
    let rows: Vec<i64> = groups.iter().map(|group| group.num_rows()).collect();
    assert_eq!(rows, [32_768, 32_768, 14_464]);
    for (number, row) in file.get_row_iter(None).unwrap().enumerate() {
        let columns = row.unwrap().into_columns();
        let field = |name: &str| &columns.iter().find(|(known, _)| known == name).unwrap().1;
        assert_eq!(field("packets_ab"), &Field::ULong(number as u64));
        assert_eq!(field("packets_ba"), &Field::ULong(MOST_PACKETS));
        assert_eq!(field("b_address"), &Field::Str("255.255.255.255".to_owned()));
    }
}

#[test]
fn a_brokers_records_name_group_and_sensor() {
    let rows = [Some("ids-1"), None].map(|sensor| Origin { group: "ids, \"all\"", sensor });
    let record_of = |origin: Origin<'_>| {
        let mut record = record(1);
        if origin.sensor.is_some() {
            record.mark_suspect();
        }
        record
    };
    let written = |format| {
        let mut writer = RecordWriter::new(Vec::new(), format, true).unwrap();
        for origin in rows {
            writer.write(&Row::new(&record_of(origin), 0, Some(origin))).unwrap();
        }
        writer.finish().unwrap()
    };
    let csv = String::from_utf8(written(RecordFormat::Csv)).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines[0].ends_with(",ended,group,sensor,cut,shed,first_ab,last_ab,first_ba,last_ba,scan"),
        "{}",
        lines[0]
    );
    let times = "1970-01-01T00:00:00.000000002Z,1970-01-01T00:00:00.000000003Z,\
                 1969-12-31T23:59:59.999999995Z,2262-04-11T23:47:16.854775807Z";
    for (line, sensor) in lines[1..].iter().zip(["ids-1", ""]) {
        let scan = if sensor.is_empty() { "" } else { "suspect" };
        let end = format!(",idle,\"ids, \"\"all\"\"\",{sensor},7,4294967295,{times},{scan}");
        assert!(line.ends_with(&end), "{line}");
    }
    let json = String::from_utf8(written(RecordFormat::JsonLines)).unwrap();
    let values = json.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let named: Vec<_> = values.map(|one| serde_json::json!([one["sensor"], one["scan"]])).collect();
    assert_eq!(named, [serde_json::json!(["ids-1", "suspect"]), serde_json::json!([null, null])]);
    let columns = bytes::Bytes::from(written(RecordFormat::Parquet));
    let file = SerializedFileReader::new(columns).unwrap();
    let last = |row: Result<parquet::record::Row, _>| -> Vec<Field> {
        row.unwrap().into_columns().into_iter().skip(15).map(|(_, field)| field).collect()
    };
    let read: Vec<Vec<Field>> = file.get_row_iter(None).unwrap().map(last).collect();
    let of = |sensor, scan| {
        vec![
            Field::Str("ids, \"all\"".to_owned()),
            sensor,
            Field::ULong(7),
            Field::ULong(u32::MAX.into()),
            Field::Long(2),
            Field::Long(3),
            Field::Long(-5),
            Field::Long(i64::MAX),
            scan,
        ]
    };
    let text = |text: &str| Field::Str(text.to_owned());
    assert_eq!(read, [of(text("ids-1"), text("suspect")), of(Field::Null, Field::Null)]);
}
