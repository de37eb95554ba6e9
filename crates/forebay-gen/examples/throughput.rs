//! Times the generator: prints packets a second and megabytes of one million
//! packets of each profile.

use std::time::Instant;

use forebay_gen::{Config, Generator, Profile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for profile in Profile::ALL {
        for _ in 0..3 {
            let packets = 1_000_000;
            let config = Config { packets, flows: 100_000, profile, ..Config::default() };
            let begin = Instant::now();
            let mut generator = Generator::new(config)?;
            let mut bytes = 0;
            while let Some(batch) = generator.next_batch()? {
                bytes += batch.live_bytes();
            }
            let rate = packets as f64 / begin.elapsed().as_secs_f64() / 1e6;
            println!("{profile}: {rate:.2} million packets/s, {} MB", bytes / 1_000_000);
        }
    }
    Ok(())
}
