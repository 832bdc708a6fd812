//! Room for packets that wait while the kernel lets another program run: those that find none are lost, and not by the way.

use std::net::UdpSocket;

use rustix::net::sockopt;

/// Bytes, which hold some thousands of packets; by default there is room for a few hundred.
const ROOM: usize = 4 << 20;

/// Take that much beyond the host's own bound where that is permitted, else what the bound leaves.
pub fn enlarge_buffer(socket: &UdpSocket) -> std::io::Result<()> {
    let taken = sockopt::set_socket_recv_buffer_size_force(socket, ROOM);
    Ok(taken.or_else(|_| sockopt::set_socket_recv_buffer_size(socket, ROOM))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_nobody_reads_wait() {
        let [reader, writer] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        enlarge_buffer(&reader).unwrap();
        let is_permitted = rustix::process::geteuid().is_root();
        let sent = if is_permitted { 2000 } else { 100 };
        let address = reader.local_addr().unwrap();
        for _ in 0..sent {
            writer.send_to(&[0; 64], address).unwrap();
        }
        reader.set_nonblocking(true).unwrap();
        let waited = (0..sent).take_while(|_| reader.recv(&mut [0; 64]).is_ok());
        assert_eq!(waited.count(), sent);
    }
}
