//! `report-exporter [--listen 127.0.0.1:0]`: serves, with its address as the one line on stdout.

use std::io::Write;

use anyhow::{Context, bail};
use report_exporter::Exporter;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut listen = String::from("127.0.0.1:0");
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--listen" => {
                listen = arguments
                    .next()
                    .context("--listen takes an address, as in 127.0.0.1:0")?
            }
            "-h" | "--help" => {
                println!("report-exporter [--listen 127.0.0.1:0]");
                return Ok(());
            }
            other => bail!("unknown argument {other}; only --listen ADDRESS is known"),
        }
    }
    let exporter = Exporter::start(&listen)
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    writeln!(std::io::stdout(), "{}", exporter.url())?;
    exporter.wait().await;
    Ok(())
}
