"""What can be captured: live modules, scripts, ExportedPrograms and graph modules."""
