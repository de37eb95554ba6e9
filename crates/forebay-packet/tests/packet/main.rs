//! Headers of packets: decoded, compared, hashed and stripped.

mod agreement;
mod community_id;
mod decode;
mod lanes;
mod payload;
mod rate_label;
mod strip;
