//! Messages of TLS 1.3 (RFC 8446) as observed on the wire: the ClientHello and ServerHello
//! in clear, everything after them as application data.

use super::names::HostName;
use super::writer::Writer;
use forebay_packet::random::Random;

/// Content type of encrypted records.
pub const APPLICATION_DATA: u8 = 23;
const HANDSHAKE: u8 = 22;
const CHANGE_CIPHER_SPEC: [u8; 6] = [20, 3, 3, 0, 1, 1];

/// Bytes of an encrypted Finished message: header, verification data of SHA-256,
/// content type and tag.
pub const FINISHED: u32 = 4 + 32 + 1 + 16;

const CIPHER_SUITES: [u16; 6] = [0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc030];

/// The header of a record with `len` bytes inside.
pub fn record_header(content: u8, len: u16) -> [u8; 5] {
    let [high, low] = len.to_be_bytes();
    [content, 3, 3, high, low]
}

/// Writes a handshake record around what `body` writes.
fn handshake(writer: &mut Writer<'_>, kind: u8, version: u16, body: impl FnOnce(&mut Writer<'_>)) {
    writer.put8(HANDSHAKE);
    writer.put16(version);
    writer.put_counted(|writer| {
        writer.put8(kind);
        // The upper byte of the 24-bit length is zero for messages this short.
        writer.put8(0);
        writer.put_counted(body);
    });
}

fn extension(writer: &mut Writer<'_>, kind: u16, body: impl FnOnce(&mut Writer<'_>)) {
    writer.put16(kind);
    writer.put_counted(body);
}

/// A ClientHello (section 4.1.2).
pub fn client_hello(writer: &mut Writer<'_>, random: &mut Random) {
    handshake(writer, 1, 0x0301, |writer| {
        writer.put16(0x0303);
        writer.put_random(random, 32);
        writer.put8(32);
        writer.put_random(random, 32);
        writer.put_counted(|writer| CIPHER_SUITES.iter().for_each(|&suite| writer.put16(suite)));
        writer.put(&[1, 0]);
        writer.put_counted(|writer| client_extensions(writer, random));
    });
}

fn client_extensions(writer: &mut Writer<'_>, random: &mut Random) {
    let name = HostName::new(random);
    // server_name (RFC 6066 section 3)
    extension(writer, 0, |writer| {
        writer.put_counted(|writer| {
            writer.put8(0);
            writer.put_counted(|writer| name.put_dotted(writer));
        });
    });
    // supported_groups: x25519, secp256r1
    extension(writer, 10, |writer| writer.put(&[0, 4, 0, 0x1d, 0, 0x17]));
    // signature_algorithms
    extension(writer, 13, |writer| writer.put(&[0, 6, 4, 3, 8, 4, 8, 7]));
    // application_layer_protocol_negotiation (RFC 7301)
    extension(writer, 16, |writer| {
        writer.put_counted(|writer| writer.put(b"\x02h2\x08http/1.1"));
    });
    // supported_versions: 1.3, 1.2
    extension(writer, 43, |writer| writer.put(&[4, 3, 4, 3, 3]));
    // key_share: x25519
    extension(writer, 51, |writer| {
        writer.put_counted(|writer| {
            writer.put16(0x1d);
            writer.put_counted(|writer| writer.put_random(random, 32));
        });
    });
}

/// A ServerHello (section 4.1.3), then the header of a record with `encrypted`
/// bytes inside.
pub fn server_hello(writer: &mut Writer<'_>, random: &mut Random, encrypted: u16) {
    handshake(writer, 2, 0x0303, |writer| {
        writer.put16(0x0303);
        writer.put_random(random, 32);
        writer.put8(32);
        writer.put_random(random, 32);
        writer.put16(CIPHER_SUITES[0]);
        writer.put8(0);
        writer.put_counted(|writer| {
            extension(writer, 43, |writer| writer.put16(0x0304));
            extension(writer, 51, |writer| {
                writer.put16(0x1d);
                writer.put_counted(|writer| writer.put_random(random, 32));
            });
        });
    });
    writer.put(&CHANGE_CIPHER_SPEC);
    writer.put(&record_header(APPLICATION_DATA, encrypted));
}

/// The client's change of cipher and the header of its Finished.
pub fn client_finished(writer: &mut Writer<'_>) {
    writer.put(&CHANGE_CIPHER_SPEC);
    writer.put(&record_header(APPLICATION_DATA, FINISHED as u16));
}
