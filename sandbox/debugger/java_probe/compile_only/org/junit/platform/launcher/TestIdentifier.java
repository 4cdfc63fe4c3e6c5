package org.junit.platform.launcher;

import java.util.Optional;
import org.junit.platform.engine.TestSource;

public class TestIdentifier {
    public native String getUniqueId();

    public native String getDisplayName();

    public native boolean isTest();

    public native Optional<TestSource> getSource();
}
