// Brings the page to life, once all of it is there.
document.documentElement.classList.remove('plain');
startTables();
startFilters();
startPlots();
startTimelines();
startTheme();
