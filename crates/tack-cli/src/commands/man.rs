//! `tack man`

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::cli::{Cli, EXAMPLES, ManArgs};
use crate::config_file;
use crate::error::Error;
use crate::{exit, ticket, token};

/// Writes `tack.1` and a page for each command that users call.
pub fn man(args: &ManArgs) -> Result<(), Error> {
    let directory = &args.dir;
    let mut tack = Cli::command().disable_help_subcommand(true);
    tack.build();
    fs::create_dir_all(directory)
        .and_then(|()| write_pages(&tack, directory))
        .map_err(Error::local(directory))
}

fn write_pages(tack: &Command, directory: &Path) -> io::Result<()> {
    write_page(tack.clone(), directory, |page| {
        let (examples, notes) = EXAMPLES.split_once("\n\n").unwrap_or((EXAMPLES, ""));
        let examples = examples.split_once('\n').map_or(examples, |(_heading, lines)| lines);
        lines_section(page, "EXAMPLES", examples)?;
        text_section(page, "NOTES", notes)
    })?;
    for command in tack.get_subcommands().filter(|command| !command.is_hide_set()) {
        let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        write_page(command.clone(), directory, |page| text_section(page, "NOTES", &notes))?;
    }
    Ok(())
}

/// Writes the page of a command, with `notes` behind its options.
fn write_page(
    command: Command,
    directory: &Path,
    notes: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let has_commands = command.get_subcommands().any(|command| !command.is_hide_set());
    let man = Man::new(command);
    let mut page = File::create(directory.join(man.get_filename()))?;
    let page: &mut dyn Write = &mut page;
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if has_commands {
        man.render_subcommands_section(page)?;
    }
    notes(page)?;
    let (_, codes) = exit::TABLE.split_once('\n').unwrap_or_default();
    lines_section(page, "EXIT STATUS", codes)?;
    text_section(page, "ENVIRONMENT", &environment())?;
    if name == "tack" {
        man.render_version_section(page)?;
    }
    Ok(())
}

/// The variables that count.
fn environment() -> String {
    format!(
        "{} names the configuration file in the place of /etc/tack/config.toml and ~/.config/tack/config.toml; none \
         counts if it is empty. {} is the access token of a server, {} a ticket. TACK_SSH names the program that tack \
         copy uses for ssh. XDG_CONFIG_HOME, XDG_DATA_HOME and XDG_STATE_HOME stand for ~/.config, ~/.local/share and \
         ~/.local/state.",
        config_file::VARIABLE,
        token::VARIABLE,
        ticket::VARIABLE
    )
}

/// A section with lines that stay as they are.
fn lines_section(page: &mut dyn Write, heading: &str, lines: &str) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    roff.control("nf", []);
    for line in lines.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff.to_writer(page)
}

/// A section of flowing text; nothing where there is none.
fn text_section(page: &mut dyn Write, heading: &str, text: &str) -> io::Result<()> {
    if text.trim().is_empty() {
        return Ok(());
    }
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    roff.text([roman(text.trim())]);
    roff.to_writer(page)
}
