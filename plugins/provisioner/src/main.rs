//! `provisioner [--listen 127.0.0.1:0] [--delay MILLISECONDS]`: serves, with its address as the one line on stdout.

use std::io::Write;

use anyhow::{Context, bail};
use provisioner::Provisioner;

const USAGE: &str = "provisioner [--listen 127.0.0.1:0] [--delay MILLISECONDS]";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut listen = String::from("127.0.0.1:0");
    let mut delay = 3000;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().context(USAGE);
        match argument.as_str() {
            "--listen" => listen = value()?,
            "--delay" => delay = value()?.parse().context("--delay takes milliseconds")?,
            "-h" | "--help" => {
                println!("{USAGE}");
                return Ok(());
            }
            other => bail!("unknown argument {other}; {USAGE}"),
        }
    }
    let provisioner = Provisioner::start(&listen)
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    provisioner.delay(Some(delay));
    writeln!(std::io::stdout(), "{}", provisioner.url())?;
    provisioner.wait().await;
    Ok(())
}
