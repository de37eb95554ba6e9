//! Rows as columns: Parquet.
//!
//! A file consists of row groups, and each of these of columns, so the rows of a group are
//! collected before it is written. Groups have a fixed number of rows, which bounds the memory;
//! the description of a group, some kilobytes, is kept until the file ends.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_flow::FlowRecord;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::row::{Origin, Row};

/// Rows of a group.
const GROUP: usize = 1 << 15;

/// The columns, which are those of JSON; an end is its address and its port.
const SCHEMA: &str = "
    OPTIONAL BYTE_ARRAY community_id (STRING);
    REQUIRED BYTE_ARRAY proto (STRING);
    OPTIONAL BYTE_ARRAY a_address (STRING);
    OPTIONAL INT32 a_port (INTEGER(16, false));
    OPTIONAL BYTE_ARRAY b_address (STRING);
    OPTIONAL INT32 b_port (INTEGER(16, false));
    REQUIRED INT64 packets_ab (INTEGER(64, false));
    REQUIRED INT64 packets_ba (INTEGER(64, false));
    REQUIRED INT64 bytes_ab (INTEGER(64, false));
    REQUIRED INT64 bytes_ba (INTEGER(64, false));
    REQUIRED INT64 first (TIMESTAMP(NANOS, true));
    REQUIRED INT64 last (TIMESTAMP(NANOS, true));
    REQUIRED BYTE_ARRAY tcp_flags_ab (STRING);
    REQUIRED BYTE_ARRAY tcp_flags_ba (STRING);
    OPTIONAL BYTE_ARRAY ended (STRING);
";

/// The columns that a broker's records have besides.
const SCHEMA_OF_ORIGIN: &str = "
    REQUIRED BYTE_ARRAY group (STRING);
    OPTIONAL BYTE_ARRAY sensor (STRING);
    REQUIRED INT64 cut (INTEGER(64, false));
    REQUIRED INT64 shed (INTEGER(64, false));
";

/// The last columns. A time is missing where no packet went in its direction.
const SCHEMA_OF_TIMES: &str = "
    OPTIONAL INT64 first_ab (TIMESTAMP(NANOS, true));
    OPTIONAL INT64 last_ab (TIMESTAMP(NANOS, true));
    OPTIONAL INT64 first_ba (TIMESTAMP(NANOS, true));
    OPTIONAL INT64 last_ba (TIMESTAMP(NANOS, true));
";

/// Behind these, of a broker's records.
const SCHEMA_OF_SCAN: &str = "
    OPTIONAL BYTE_ARRAY scan (STRING);
";

/// The values of a column in the present row group. An optional column has a level for each
/// row: 1 with a value, 0 without.
enum Column {
    Text(Vec<ByteArray>),
    OptionalText(Vec<ByteArray>, Vec<i16>),
    OptionalPort(Vec<i32>, Vec<i16>),
    Number(Vec<i64>),
    OptionalNumber(Vec<i64>, Vec<i16>),
}

/// A value of a row, of the kind that its column has.
enum Value<'a> {
    Text(&'a str),
    OptionalText(Option<&'a str>),
    OptionalPort(Option<u16>),
    /// A count as unsigned number: Parquet stores its 64 bits as those of a signed one.
    Count(u64),
    Nanos(i64),
    OptionalNanos(Option<i64>),
}

/// A file that outlives its writer: the library returns it only after a success.
struct Shared<W>(Arc<Mutex<W>>);

impl<W: Write> Write for Shared<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// Writes rows as Parquet.
pub(crate) struct ColumnWriter<W: Write + Send> {
    file: SerializedFileWriter<Shared<W>>,
    out: Arc<Mutex<W>>,
    columns: Vec<Column>,
    rows: usize,
}

impl<W: Write + Send> ColumnWriter<W> {
    pub(crate) fn new(out: W, has_origin: bool) -> io::Result<Self> {
        let of_origin = if has_origin { SCHEMA_OF_ORIGIN } else { "" };
        let of_scan = if has_origin { SCHEMA_OF_SCAN } else { "" };
        let schema = format!("message flow {{ {SCHEMA} {of_origin} {SCHEMA_OF_TIMES} {of_scan} }}");
        let schema = parse_message_type(&schema).map_err(io_error)?;
        let properties = WriterProperties::builder()
            .set_created_by(concat!("forebay ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            // Nearly every record has another.
            .set_column_dictionary_enabled(ColumnPath::from("community_id"), false)
            // What describes pages is kept until the end of the file.
            .set_offset_index_disabled(true)
            .build();
        let out = Arc::new(Mutex::new(out));
        let shared = Shared(Arc::clone(&out));
        let file = SerializedFileWriter::new(shared, Arc::new(schema), Arc::new(properties));
        Ok(Self { file: file.map_err(io_error)?, out, columns: Vec::new(), rows: 0 })
    }

    pub(crate) fn write(&mut self, row: &Row<'_>) -> io::Result<()> {
        let FlowRecord { cut, shed, .. } = row.record;
        let directions = row.record.directions();
        let [ab, ba] = directions;
        let [flags_ab, flags_ba] = row.tcp_flags();
        let [a, b] = &row.ends;
        let values = [
            Value::OptionalText(row.community_id.as_deref()),
            Value::Text(&row.proto),
            Value::OptionalText(a.address.as_deref()),
            Value::OptionalPort(a.port),
            Value::OptionalText(b.address.as_deref()),
            Value::OptionalPort(b.port),
            Value::Count(ab.packets),
            Value::Count(ba.packets),
            Value::Count(ab.bytes),
            Value::Count(ba.bytes),
            Value::Nanos(row.record.first()),
            Value::Nanos(row.record.last()),
            Value::Text(&flags_ab),
            Value::Text(&flags_ba),
            Value::OptionalText(row.ended()),
        ];
        let of_origin = row.origin.map(|Origin { group, sensor }| {
            let [cut, shed] = [*cut, *shed].map(|packets| Value::Count(packets.into()));
            [Value::Text(group), Value::OptionalText(sensor), cut, shed]
        });
        let times = directions.iter().flat_map(|counts| {
            let times = counts.times().map_or([None; 2], |times| times.map(Some));
            times.map(Value::OptionalNanos)
        });
        let scan = row.origin.map(|_| Value::OptionalText(row.scan()));
        let values = values.into_iter().chain(of_origin.into_iter().flatten()).chain(times);
        let values = values.chain(scan);
        if self.columns.is_empty() {
            self.columns = values.map(Column::with).collect();
        } else {
            self.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        self.rows += 1;
        if self.rows == GROUP { self.end_group() } else { Ok(()) }
    }

    /// Writes the collected rows as a row group.
    fn end_group(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group().map_err(io_error)?;
        let mut columns = self.columns.iter_mut();
        while let Some(mut writer) = group.next_column().map_err(io_error)? {
            let Some(column) = columns.next() else {
                return Err(io::Error::other("a row of a broker's record without its origin"));
            };
            column.write(&mut writer).map_err(io_error)?;
            writer.close().map_err(io_error)?;
        }
        group.close().map_err(io_error)?;
        self.rows = 0;
        Ok(())
    }

    /// Bytes written so far; rows of the present group are not among them.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.file.bytes_written() as u64
    }

    /// Writes the rest and the description of the file, after which no rows may come.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.end_group()?;
        self.file.finish().map_err(io_error)?;
        self.file.flush()
    }

    /// The file, whatever is in it; nothing if the library kept it.
    pub(crate) fn into_file(self) -> Option<W> {
        drop(self.file);
        let out = Arc::into_inner(self.out)?;
        Some(out.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Column {
    /// The column of a first value.
    fn with(value: Value<'_>) -> Self {
        let mut column = match value {
            Value::Text(_) => Self::Text(Vec::new()),
            Value::OptionalText(_) => Self::OptionalText(Vec::new(), Vec::new()),
            Value::OptionalPort(_) => Self::OptionalPort(Vec::new(), Vec::new()),
            Value::Count(_) | Value::Nanos(_) => Self::Number(Vec::new()),
            Value::OptionalNanos(_) => Self::OptionalNumber(Vec::new(), Vec::new()),
        };
        column.push(value);
        column
    }

    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Self::Text(values), Value::Text(text)) => values.push(text.into()),
            (Self::OptionalText(values, levels), Value::OptionalText(text)) => {
                levels.push(i16::from(text.is_some()));
                values.extend(text.map(ByteArray::from));
            }
            (Self::OptionalPort(values, levels), Value::OptionalPort(port)) => {
                levels.push(i16::from(port.is_some()));
                values.extend(port.map(i32::from));
            }
            (Self::Number(values), Value::Count(count)) => values.push(count.cast_signed()),
            (Self::Number(values), Value::Nanos(nanos)) => values.push(nanos),
            (Self::OptionalNumber(values, levels), Value::OptionalNanos(nanos)) => {
                levels.push(i16::from(nanos.is_some()));
                values.extend(nanos);
            }
            // All rows have the same kinds of values in the same order.
            _ => {}
        }
    }

    /// Writes the values and empties the column.
    fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match self {
            Self::Text(values) => {
                writer.typed::<ByteArrayType>().write_batch(values, None, None)?;
                values.clear();
            }
            Self::OptionalText(values, levels) => {
                writer.typed::<ByteArrayType>().write_batch(values, Some(levels), None)?;
                values.clear();
                levels.clear();
            }
            Self::OptionalPort(values, levels) => {
                writer.typed::<Int32Type>().write_batch(values, Some(levels), None)?;
                values.clear();
                levels.clear();
            }
            Self::OptionalNumber(values, levels) => {
                writer.typed::<Int64Type>().write_batch(values, Some(levels), None)?;
                values.clear();
                levels.clear();
            }
            Self::Number(values) => {
                writer.typed::<Int64Type>().write_batch(values, None, None)?;
                values.clear();
            }
        }
        Ok(())
    }
}

/// The error of the file below, if it is one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::other(other),
    }
}
